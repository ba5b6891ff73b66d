"""Short waits are spent inside Envoy."""

from gatekit import Raw, config, eventually, head, send, statuses
from harness import parallel

# One call every two seconds, one at once.
PACED = {"requests_per_minute": 30}


def test_a_wait_shorter_than_allowed_is_parked_and_never_seen_as_a_denial(gate, provider):
    envoy = gate(config(PACED, burst_seconds=2, max_wait_ms=8000))
    replies = parallel(3, lambda index: send(envoy, f"call {index}"))
    assert statuses(replies) == {200: 3}
    assert envoy.metric("requests", decision="parked") == 2
    assert envoy.metric("requests", decision="denied") == 0
    eventually(lambda: envoy.metric("parked") == 0, what="nobody parked")


def test_more_than_max_parked_are_denied(gate, provider):
    envoy = gate(config(PACED, burst_seconds=2, max_wait_ms=8000, max_parked=1), workers=1)
    assert statuses(parallel(6, lambda index: send(envoy, f"call {index}"))) == {200: 2, 429: 4}


def test_a_client_that_goes_away_while_parked_takes_nothing(gate, provider):
    envoy = gate(config({"concurrent_requests": 1}, max_wait_ms=20_000))
    with Raw(envoy) as holder:
        body = b'{"model":"m-chat","stream":true,"messages":[]}'
        holder.send(head(content_length=len(body), x_mock="stall_after=1") + body)
        holder.until(b"chat.completion.chunk")
        with Raw(envoy) as parked:
            parked.send(head(content_length=len(body)) + body)
            eventually(lambda: envoy.metric("parked") == 1, what="a parked call")
        eventually(lambda: envoy.metric("parked") == 0, what="nobody parked")
    eventually(lambda: send(envoy).status == 200, what="the slot")
    assert provider.total()["requests"] == 2
