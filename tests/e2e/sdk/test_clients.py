"""Each provider's official client through real Envoy: denial, return, stream and usage, in the client's own words."""

import time

import pytest
from clients import CLIENTS
from gatekit import FREE, config, eventually, send


@pytest.fixture(params=CLIENTS)
def client(request, provider):
    kind = CLIENTS[request.param]
    provider.configure(behave=kind.behave)
    return kind


@pytest.fixture
def paced(gate):
    """A gate that lets one call pass every three seconds, the first of which was just used."""
    envoy = gate(config({"requests_per_minute": 20}, burst_seconds=1))
    assert send(envoy, "something else").status == 200
    return envoy


@pytest.mark.parametrize("way", ["ask", "stream"])
def test_it_is_denied_comes_back_and_gets_its_answer(client, paced, provider, way):
    started = time.monotonic()
    text, _, _ = getattr(client(paced.port), way)()
    assert text
    assert 1 <= time.monotonic() - started <= 20
    denied = paced.metric("requests", decision="denied")
    assert denied == 1 if client.obeys else denied >= 1
    assert provider.total()["requests"] == 2


@pytest.mark.parametrize("way", ["ask", "stream"])
def test_gate_and_client_read_the_usage_that_the_provider_stated(client, gate, provider, way):
    envoy = gate(config({"tokens_per_minute": FREE}))
    text, given, made = getattr(client(envoy.port), way)()
    total = provider.total()
    assert text and (given, made) == (total["input"], total["output"])
    eventually(lambda: envoy.metric("tokens", kind="output"), what="settlement")
    assert (envoy.metric("tokens", kind="input"), envoy.metric("tokens", kind="output")) == (given, made)
    # What the client shows is what the gate read, not what the gate guessed.
    assert envoy.metric("anomalies", reason="usage_missing") == 0


def test_it_raises_its_own_error_with_our_message(client, gate, provider):
    envoy = gate(config({"requests_per_minute": 1}))
    assert send(envoy).status == 200
    impatient = client(envoy.port, retries=False)
    with pytest.raises(client.error) as denied:
        impatient.ask()
    assert impatient.status(denied.value) == 429
    assert "m-chat" in str(denied.value) and "seconds" in str(denied.value)
    assert provider.total()["requests"] == 1
