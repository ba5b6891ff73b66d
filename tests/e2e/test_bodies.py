"""Bodies of every size and framing arrive as they were sent, and nothing ever hangs."""

import hashlib
import json
import time

import httpx
import pytest
from conftest import LONG
from gatekit import FREE, Raw, config, eventually, head, send
from harness import call, parallel
from harness.client import chat

HUGE = config({"requests_per_minute": 100_000, "tokens_per_minute": FREE})
MEGA = 1_000_000
ROUNDS = {1_200_000: 50, 20_000_000: 50} if LONG else {1_200_000: 12, 20_000_000: 2}


def big_body(size, seed=0):
    """A chat completion of exactly `size` bytes."""
    frame = len(json.dumps(chat("", user=str(seed), max_tokens=9)))
    return json.dumps(chat("rope " * ((size - frame) // 5) + "x" * ((size - frame) % 5), user=str(seed), max_tokens=9)).encode()


def arrived(reply, body):
    return (reply.status, reply.headers.get("x-mock-body-sha256")) == (200, hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
@pytest.mark.parametrize("chunk", [None, 16_000], ids=["sized", "chunked"])
@pytest.mark.parametrize("size", ROUNDS)
def test_large_bodies_arrive_byte_exact_and_never_meet_a_413(gate, provider, size, chunk, hold_headers):
    envoy = gate({**HUGE, "hold_headers": hold_headers})
    body = big_body(size)
    assert len(body) == size
    rounds = ROUNDS[size]
    at_once = 4 if size <= MEGA * 2 else 1
    for _ in range(0, rounds, at_once):
        for reply in parallel(at_once, lambda _: call(envoy.port, body, chunk=chunk, timeout=60)):
            assert arrived(reply, body), (reply.status, reply.headers)
    assert envoy.metric("requests", decision="failed_open") == 0


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
@pytest.mark.parametrize("size", [0, 1, 100, 60_000, 262_143, 262_144, 262_145, 700_000])
def test_every_size_and_framing_passes(gate, provider, size, hold_headers):
    envoy = gate({**HUGE, "hold_headers": hold_headers})
    body = big_body(size) if size > 200 else b"x" * size
    for chunk in (None, 7_000, 65_536):
        reply = call(envoy.port, body, chunk=chunk)
        assert arrived(reply, body), (chunk, reply.status)


def test_a_denied_large_body_is_answered(gate, provider):
    for hold_headers in (True, False):
        envoy = gate({**config({"requests_per_minute": 1}), "hold_headers": hold_headers})
        assert send(envoy).status == 200
        with Raw(envoy) as raw:
            raw.send(head(content_length=5_000_000) + b'{"model":"m-chat","messages":[{"content":"' + b"x" * 200_000)
            assert b" 429 " in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]


def test_default_flags_never_hang_and_hold_the_cap(gate, provider):
    envoy = gate({**config({"requests_per_minute": 6}), "hold_headers": False})
    body = json.dumps(chat()).encode()
    replies = parallel(30, lambda index: call(envoy.port, body, chunk=[None, 20][index % 2], timeout=10))
    assert sorted(reply.status for reply in replies) == [200] * 6 + [429] * 24
    for method in ("GET", "HEAD", "OPTIONS"):
        assert call(envoy.port, method=method, timeout=10).status == 200
    assert provider.stats()["callers"]["-/-"]["ok"] == 6


def test_a_configuration_that_takes_the_flag_for_granted_never_hangs(gate, provider):
    envoy = gate(config({"requests_per_minute": 6}, inject_stream_usage=True), shows_bodies=False)
    body = json.dumps(chat(stream=True)).encode()
    replies = parallel(30, lambda index: call(envoy.port, body, chunk=[None, 20][index % 2], timeout=15))
    assert sorted(reply.status for reply in replies) == [200] * 6 + [429] * 24
    passed = [reply for reply in replies if reply.status == 200]
    assert all(arrived(reply, body) for reply in passed), "changed though its length had left"
    assert envoy.metric("anomalies", reason="body_hidden") >= 1
    envoy = gate(HUGE, shows_bodies=False)
    body = big_body(1_200_000)
    for chunk in (None, 16_000):
        assert arrived(call(envoy.port, body, chunk=chunk, timeout=15), body)


def test_a_slow_body_is_not_lost(gate, provider):

    for hold_headers in (True, False):
        envoy = gate({**HUGE, "hold_headers": hold_headers})
        body = json.dumps(chat()).encode()
        with Raw(envoy) as raw:
            raw.send(head(content_length=len(body), connection="close"))
            for at in range(0, len(body), 30):
                raw.send(body[at:at + 30])
                time.sleep(0.05)
            assert b" 200 " in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]
        assert provider.stats()["recent"][-1]["body_sha256"] == hashlib.sha256(body).hexdigest()


def test_a_first_body_that_comes_late_is_decided_and_later_ones_are_held_again(gate, provider):
    envoy = gate(config({"requests_per_minute": 2}, inject_stream_usage=True))
    body = json.dumps(chat(stream=True)).encode()
    with Raw(envoy) as raw:
        raw.send(head(content_length=len(body), connection="close"))
        eventually(lambda: envoy.metric("anomalies", reason="body_hidden") == 1, what="headers to go on")
        # A host that kept the body shows it within 20 ms of the headers; this one comes when the client sends it.
        time.sleep(0.2)
        raw.send(body)
        assert b" 200 " in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]
    assert provider.stats()["recent"][-1]["body_sha256"] == hashlib.sha256(body).hexdigest(), "changed behind its length"
    assert not arrived(call(envoy.port, body), body), "nothing was put into a body that was held"
    assert call(envoy.port, body).status == 429


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
def test_request_trailers_end_a_body(gate, provider, hold_headers):
    envoy = gate({**HUGE, "hold_headers": hold_headers}, trailers=True)
    body = json.dumps(chat()).encode()
    with Raw(envoy) as raw:
        raw.send(head(transfer_encoding="chunked", trailer="x-end", te="trailers"))
        raw.send(b"%x\r\n%s\r\n0\r\nx-end: 1\r\n\r\n" % (len(body), body))
        assert b" 200 " in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]
    assert provider.stats()["recent"][-1]["body_sha256"] == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
def test_response_trailers_pass_and_settle(gate, provider, hold_headers):
    envoy = gate({**config({"concurrent_requests": 1}), "hold_headers": hold_headers}, cluster="provider-h2", trailers=True)
    for stream in (False, True, False):
        reply = send(envoy, mock="trailers,output=5", stream=stream)
        assert reply.status == 200


def test_post_without_a_body(gate, provider):
    for hold_headers in (True, False):
        envoy = gate({**HUGE, "hold_headers": hold_headers})
        with Raw(envoy) as raw:
            raw.send(head())
            assert b" 200 " in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
def test_http2_in_and_out(gate, provider, hold_headers):
    envoy = gate({**config({"requests_per_minute": 5}), "hold_headers": hold_headers}, cluster="provider-h2")
    with httpx.Client(http1=False, http2=True, base_url=f"http://127.0.0.1:{envoy.port}") as client:
        replies = [client.post("/v1/chat/completions", json=chat(f"call {index}")) for index in range(9)]
    assert [reply.http_version for reply in replies] == ["HTTP/2"] * 9
    assert sorted(reply.status_code for reply in replies) == [200] * 5 + [429] * 4
    assert provider.stats()["recent"][0]["version"] == "HTTP/2.0"


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
@pytest.mark.parametrize("path", ["/ws", "/v1/responses"])
def test_a_websocket_upgrade_passes(gate, provider, path, hold_headers):
    envoy = gate({**HUGE, "hold_headers": hold_headers}, hcm={"upgrade_configs": [{"upgrade_type": "websocket"}]})
    with Raw(envoy) as raw:
        raw.send(head(path, "GET", connection="upgrade", upgrade="websocket", sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA==",
                      sec_websocket_version=13))
        assert b" 101 " in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]
        for count in range(1, 4):
            raw.send(b"ping-pong")
            raw.until(b"ping-pong", count)


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
def test_expect_100_continue(gate, provider, hold_headers):
    envoy = gate({**config({"requests_per_minute": 1}), "hold_headers": hold_headers})
    body = json.dumps(chat()).encode()
    for status in (b" 200 ", b" 429 "):
        with Raw(envoy) as raw:
            raw.send(head(content_length=len(body), expect="100-continue"))
            first = raw.until(b"\r\n\r\n")
            if b" 100 " in first:
                raw.send(body)
                raw.until(b"\r\n\r\n", 2)
            assert status in raw.received.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").split(b"\r\n", 1)[0]


def in_pieces(envoy, body, cuts, pause=0.1):
    """Sends a chunked call cut at these places, waiting between the pieces; gives status and headers."""
    with Raw(envoy) as raw:
        raw.send(head(transfer_encoding="chunked", connection="close"))
        for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
            time.sleep(pause)
            raw.send(b"%x\r\n%s\r\n" % (end - begin, body[begin:end]))
        raw.send(b"0\r\n\r\n")
        answer = raw.until(b"\r\n\r\n").split(b"\r\n\r\n", 1)[0].decode().lower().split("\r\n")
    return int(answer[0].split()[1]), dict(line.split(": ", 1) for line in answer[1:])


@pytest.mark.parametrize("hold_headers", [True, False], ids=["held", "released"])
def test_a_small_body_in_pieces_is_decided_as_a_whole(gate, provider, hold_headers):
    pool = config({"requests_per_minute": 2, "tokens_per_minute": FREE}, match={"models": ["late"]})
    envoy = gate({**pool, "hold_headers": hold_headers})
    body = json.dumps({"messages": [{"role": "user", "content": "tie a knot " * 200}], "max_tokens": 7, "model": "late"}).encode()
    sent = [in_pieces(envoy, body, cuts)[0] for cuts in ([1], [700, 1500], [2000], [len(body) - 1])]
    # The model stands at the end, and is seen all the same.
    assert sent == [200, 200, 429, 429]
    assert envoy.metric("requests", decision="admitted") == 2
    assert {entry["body_sha256"] for entry in provider.stats()["recent"]} == {hashlib.sha256(body).hexdigest()}
    whole = gate({**config({"tokens_per_minute": FREE}), "hold_headers": hold_headers})
    assert call(whole.port, body).status == 200
    alike = gate({**config({"tokens_per_minute": FREE}), "hold_headers": hold_headers})
    assert in_pieces(alike, body, [1, 900])[0] == 200
    assert alike.metric("tokens", kind="reserved") == whole.metric("tokens", kind="reserved")


@pytest.mark.parametrize("size", [500, 60_000, 400_000], ids=["small", "unknown", "long"])
def test_a_caller_is_known_again_however_the_network_cuts_its_body(gate, provider, size):
    envoy = gate(config({"requests_per_minute": 60}, burst_seconds=1, strict_window=False, max_wait_ms=0))
    body, other = big_body(size, 1), big_body(size, 2)
    # A newcomer of the same flow takes what there is, so the two come back to a pool that owes the first.
    assert in_pieces(envoy, other, [100])[0] == 200
    status, headers = in_pieces(envoy, body, [100])
    assert status == 429
    booked = time.monotonic() + int(headers["retry-after-ms"]) / 1000
    assert in_pieces(envoy, big_body(size, 3), [100], pause=0)[0] == 429
    time.sleep(max(0, booked - time.monotonic()))
    assert in_pieces(envoy, body, [60, 300], pause=0.02)[0] == 200


def test_a_small_body_in_pieces_can_be_parked(gate, provider):
    envoy = gate(config({"requests_per_minute": 60}, burst_seconds=1, strict_window=False, max_wait_ms=3000))
    body = json.dumps(chat()).encode()
    assert [in_pieces(envoy, body, [10, 30], pause=0.01)[0] for _ in range(3)] == [200] * 3
    assert envoy.metric("requests", decision="parked") >= 1
    assert {entry["body_sha256"] for entry in provider.stats()["recent"]} == {hashlib.sha256(body).hexdigest()}
