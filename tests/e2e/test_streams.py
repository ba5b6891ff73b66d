"""Streams pass byte by byte, and settle however they end."""

import json
import re

import pytest
from gatekit import FREE, Raw, config, eventually, head, send, settled, statuses
from harness import call
from harness.client import chat

# A stream of 8 content events with 10 LLM tokens each.
STREAM = "output=80,chunks=8,chunk_ms=150"


def stream_body(**members):
    return json.dumps(chat(max_tokens=500, stream=True, stream_options={"include_usage": True}, **members)).encode()


def open_stream(envoy, mock=STREAM):
    raw = Raw(envoy)
    body = stream_body()
    raw.send(head(content_length=len(body), x_mock=mock) + body)
    return raw


@pytest.mark.parametrize("point, mark, count, least, most", [
    ("at chunk 1", b'"content":"knot', 1, 5, 60),
    ("in the middle", b"chat.completion.chunk", 5, 20, 75),
])
def test_a_cancelled_stream_gives_its_slot_back_and_pays_for_what_was_streamed(gate, provider, point, mark, count, least, most):
    envoy = gate(config({"concurrent_requests": 1, "tokens_per_minute": FREE}))
    with open_stream(envoy) as raw:
        raw.until(mark, count)
        assert send(envoy).status == 429
    eventually(lambda: envoy.metric("in_flight") == 0 and envoy.metric("tokens", kind="output") > 0, what="settlement")
    charged = envoy.metric("tokens", kind="output")
    assert least <= charged <= most, point
    assert envoy.metric("tokens", kind="input") > 0
    eventually(lambda: send(envoy).status == 200, what="the slot")


def test_a_stream_cancelled_after_its_usage_pays_the_usage(gate, provider):
    envoy = gate(config({"concurrent_requests": 1, "tokens_per_minute": FREE}))
    with open_stream(envoy, mock="output=80,chunks=2") as raw:
        raw.until(b'"completion_tokens":80')
    assert settled(envoy, "output") == 80
    eventually(lambda: send(envoy).status == 200, what="the slot")


def test_a_client_gone_before_the_answer_begins_gives_its_slot_back(gate, provider):
    envoy = gate(config({"concurrent_requests": 1}))
    with open_stream(envoy, mock="delay_ms=20000"):
        eventually(lambda: provider.stats()["in_flight"] == 1, what="arrival")
        assert send(envoy).status == 429
    eventually(lambda: send(envoy).status == 200, what="the slot")


def test_a_stalled_stream_holds_its_slot_until_it_ends(gate, provider):
    envoy = gate(config({"concurrent_requests": 1}))
    with open_stream(envoy, mock="stall_after=3") as raw:
        raw.until(b"chat.completion.chunk", 3)
        assert statuses([send(envoy) for _ in range(5)]) == {429: 5}
    eventually(lambda: send(envoy).status == 200, what="the slot")


def test_a_stream_reset_by_the_provider_settles(gate, provider):
    envoy = gate(config({"concurrent_requests": 1, "tokens_per_minute": FREE}))
    with open_stream(envoy, mock="output=80,chunks=8,chunk_ms=150,reset_after=5") as raw:
        raw.until(b"chat.completion.chunk", 2)
        assert send(envoy).status == 429
        with pytest.raises(EOFError):
            raw.until(b"[DONE]")
    eventually(lambda: send(envoy).status == 200, what="the slot")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("extra", ["", ",trailers", ",gzip"])
def test_the_bytes_of_a_stream_are_not_touched(gate, provider, path, extra):
    envoy = gate(config({"requests_per_minute": 100}))
    body = json.loads(stream_body())

    def fetch(port):
        reply = call(port, body, path=path, headers={"x-mock": "output=40,chunks=9" + extra})
        assert reply.status == 200
        return reply.body

    direct, through = fetch(provider.port), fetch(envoy.port)
    if not extra.endswith("gzip"):
        direct, through = (re.sub(rb"(chatcmpl-|msg_)\d+", rb"\1N", body) for body in (direct, through))
        assert through == direct
    assert len(through) > 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_usage_of_the_answer_settles_the_call(gate, provider, path, stream):
    envoy = gate(config({"tokens_per_minute": FREE}))
    members = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    assert send(envoy, max_tokens=5000, mock="output=33", path=path, **members).status == 200
    assert settled(envoy, "output") == 33
    (arrival,) = provider.stats()["recent"]
    assert envoy.metric("tokens", kind="input") == arrival["input"]


def test_responses_streams_settle_by_their_last_event(gate, provider):
    envoy = gate(config({"tokens_per_minute": FREE}))
    body = {"model": "m-chat", "input": "tie a knot", "stream": True, "max_output_tokens": 4000}
    assert call(envoy.port, body, path="/v1/responses", headers={"x-mock": "output=21"}).status == 200
    assert settled(envoy, "output") == 21


@pytest.mark.parametrize("mock", ["usage=omit", "usage=null", "usage=zero", "garbage=1"])
def test_unknown_usage_is_never_taken_for_nothing(gate, provider, mock):
    envoy = gate(config({"tokens_per_minute": 1000}))
    replies = [send(envoy, "rope " * 300, max_tokens=10, mock=mock) for _ in range(8)]
    # At least the estimate of the input (about 300) is kept by each.
    assert statuses(replies)[200] <= 4
    assert envoy.metric("anomalies") > 0


def test_a_stream_without_usage_is_charged_by_its_text(gate, provider):
    envoy = gate(config({"tokens_per_minute": FREE}))
    reply = send(envoy, stream=True, max_tokens=5000, mock="output=400")
    assert reply.status == 200
    assert 200 <= settled(envoy, "output") <= 800


def test_gzip_that_comes_all_the_same_is_read(gate, provider):
    envoy = gate(config({"tokens_per_minute": FREE}))
    reply = send(envoy, stream=True, stream_options={"include_usage": True}, max_tokens=5000, mock="output=44,gzip")
    assert reply.status == 200 and reply.headers["content-encoding"] == "gzip"
    assert settled(envoy, "output") == 44


def test_the_provider_is_asked_for_an_uncompressed_answer(gate, provider):
    envoy = gate(config({"requests_per_minute": 10}))
    assert send(envoy, headers={"accept-encoding": "gzip, br"}).status == 200
    assert provider.stats()["recent"][0]["headers"]["accept-encoding"] == "identity"
