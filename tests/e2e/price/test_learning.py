"""What the provider says about itself is obeyed; and usage that nobody asked for is asked for where the pool says so."""

import json

import openai
import pytest
from gatekit import FREE, config, eventually, send, settled
from harness import call

PAUSING = {"pause_on_429": True, "headers": False, "adapt": False}


def status(envoy):
    reply = call(envoy.port, method="GET", path="/gate", headers={"accept": "application/json"})
    return reply.json()["pools"][0]


@pytest.mark.parametrize("code", [429, 503, 529])
def test_a_refusal_by_the_provider_pauses_everybody_for_as_long_as_it_says(gate, provider, code):
    envoy = gate(config({"requests_per_minute": 600}, learn=PAUSING))
    assert send(envoy, mock=f"status={code},retry_after=2").status == code
    eventually(lambda: envoy.metric("upstream_throttled") == 1, what="the lesson")
    arrived = provider.total()["requests"]
    # On whatever worker: each connection is a new one.
    refused = [send(envoy, f"call {number}", headers={"x-tenant": "other"}) for number in range(12)]
    assert {reply.status for reply in refused} == {429}
    assert {reply.headers["x-backpressure-reason"] for reply in refused} == {"upstream_paused"}
    assert all(1 <= int(reply.headers["retry-after"]) <= 59 for reply in refused)
    assert provider.total()["requests"] == arrived
    eventually(lambda: send(envoy, "call 0", headers={"x-tenant": "other"}).status == 200, what="the end of the pause")
    # Our own refusals taught nothing.
    assert envoy.metric("upstream_throttled") == 1


def test_no_pause_where_it_is_switched_off(gate, provider):
    envoy = gate(config({"requests_per_minute": 600}, learn={**PAUSING, "pause_on_429": False}))
    assert send(envoy, mock="status=429,retry_after=30").status == 429
    eventually(lambda: envoy.metric("upstream_throttled") == 1, what="the lesson")
    assert send(envoy).status == 200


@pytest.mark.parametrize("learns", [True, False])
def test_a_lower_remaining_amount_of_the_provider_is_adopted(gate, provider, learns):
    provider.configure(limits={"rpm": 40}, behave="limit_headers")
    envoy = gate(config({"requests_per_minute": 1000}, learn={**PAUSING, "headers": learns}))
    reply = send(envoy)
    assert reply.status == 200 and reply.headers["x-ratelimit-remaining-requests"] == "39"
    eventually(lambda: envoy.samples("available"), what="the gauge")
    if learns:
        eventually(lambda: envoy.metric("available", resource="requests") <= 39, what="the lower amount")
    else:
        assert envoy.metric("available", resource="requests") >= 990


def test_refusals_lower_the_limit_and_successes_raise_it_again(gate, provider):
    envoy = gate(config({"requests_per_minute": 600}, top={"status_path": "/gate"}, learn={**PAUSING, "adapt": True}))
    assert status(envoy)["scale_permille"] == 1000
    assert send(envoy, mock="status=429,retry_after=1").status == 429
    eventually(lambda: send(envoy).status == 200, what="the end of the pause")
    low = status(envoy)["scale_permille"]
    assert low < 1000
    eventually(lambda: send(envoy) and status(envoy)["scale_permille"] > low, what="recovery")


INJECTING = {"inject_stream_usage": True}


def test_usage_of_a_stream_is_asked_for_when_the_pool_says_so(gate, provider):
    envoy = gate(config({"tokens_per_minute": FREE}, **INJECTING))
    reply = send(envoy, stream=True, max_tokens=5000, mock="output=77")
    assert reply.status == 200 and b'"completion_tokens":77' in reply.body
    (arrival,) = provider.stats()["recent"]
    assert int(arrival["headers"]["content-length"]) == arrival["body_size"]
    assert settled(envoy, "output", 77) == 77
    assert envoy.metric("tokens", kind="input") == arrival["input"]
    assert envoy.metric("anomalies", reason="usage_missing") == 0


@pytest.mark.parametrize("members", [
    {}, {"stream": False}, {"stream": True, "stream_options": {"include_usage": True}}])
def test_bodies_that_need_nothing_are_left_alone(gate, provider, members):
    envoy = gate(config({"tokens_per_minute": FREE}, **INJECTING))
    direct = send(provider, **members).headers["x-mock-body-sha256"]
    assert send(envoy, **members).headers["x-mock-body-sha256"] == direct


def test_options_that_are_there_are_kept(gate, provider):
    envoy = gate(config({"tokens_per_minute": FREE}, **INJECTING))
    reply = send(envoy, stream=True, stream_options={"include_obfuscation": False}, mock="output=9")
    assert b'"completion_tokens":9' in reply.body
    (arrival,) = provider.stats()["recent"]
    sent = len(json.dumps({"model": "m-chat", "messages": [{"role": "user", "content": "tie a knot"}], "stream": True,
                           "stream_options": {"include_obfuscation": False}}))
    assert arrival["body_size"] > sent


def test_the_chunk_that_nobody_asked_for_harms_no_client(gate, provider):
    envoy = gate(config({"tokens_per_minute": FREE}, **INJECTING))
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{envoy.port}/v1", api_key="sk-test")
    messages = [{"role": "user", "content": "tie a knot"}]
    stream = client.chat.completions.create(model="m-chat", messages=messages, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    with client.chat.completions.stream(model="m-chat", messages=messages) as stream:
        assert stream.get_final_completion().choices[0].message.content
    assert envoy.metric("anomalies", reason="usage_missing") == 0
