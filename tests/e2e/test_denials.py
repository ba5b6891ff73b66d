"""What a refused client sees."""

import json
import re
import time

import pytest
from gatekit import config, eventually, send, statuses
from harness import call, parallel

LIMIT_HEADERS = [f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")]


@pytest.fixture
def full(gate):
    """A gate that was just used up."""
    envoy = gate(config({"requests_per_minute": 1, "tokens_per_minute": 10_000}))
    assert send(envoy).status == 200
    return envoy


def check_denial(reply):
    assert reply.status == 429
    (seconds,) = reply.all("retry-after")
    assert re.fullmatch(r"[1-9]\d*", seconds) and int(seconds) <= 59
    (milliseconds,) = reply.all("retry-after-ms")
    assert 0 < int(milliseconds) <= 1000 * int(seconds)
    assert reply.headers["x-should-retry"] == "true"
    assert reply.headers["x-backpressure-reason"] == "exhausted"
    assert reply.headers["content-type"].startswith("application/json")


def test_a_denial_has_one_retry_after_and_says_why(full):
    reply = send(full)
    check_denial(reply)
    for name in LIMIT_HEADERS:
        assert len(reply.all(name)) == 1, name
    assert reply.headers["x-ratelimit-limit-requests"] == "1"
    assert reply.headers["x-ratelimit-remaining-requests"] == "0"
    assert re.fullmatch(r"\d+(\.\d+)?m?s", reply.headers["x-ratelimit-reset-requests"])


def test_a_denial_speaks_openai(full):
    error = send(full).json()["error"]
    assert error["code"] == "rate_limit_exceeded" and error["type"]
    assert error["message"] and "param" in error


def test_a_denial_speaks_anthropic(full):
    reply = send(full, path="/v1/messages", max_tokens=5)
    check_denial(reply)
    body = reply.json()
    assert body["type"] == "error" and body["error"]["type"] == "rate_limit_error" and body["error"]["message"]


@pytest.mark.parametrize("path, member", [("/v1/completions", "prompt"), ("/v1/responses", "input"), ("/v1/embeddings", "input")])
def test_other_openai_endpoints_are_metered_and_denied_too(full, path, member):
    check_denial(call(full.port, {"model": "m-chat", member: "tie a knot"}, path=path))


def test_admitted_answers_carry_the_limit_headers(gate, provider):
    envoy = gate(config({"requests_per_minute": 10, "tokens_per_minute": 10_000}))
    reply = send(envoy, output=50)
    assert [len(reply.all(name)) for name in LIMIT_HEADERS] == [1] * 6
    assert reply.headers["x-ratelimit-limit-tokens"] == "10000"
    assert reply.headers["x-ratelimit-remaining-requests"] == "9"
    assert 0 <= int(reply.headers["x-ratelimit-remaining-tokens"]) < 10_000


def test_limit_headers_of_the_provider_are_left_alone(gate, provider):
    provider.configure(limits={"rpm": 123, "tpm": 45_678})
    envoy = gate(config({"requests_per_minute": 10, "tokens_per_minute": 10_000}, learn={"headers": False}))
    reply = send(envoy, mock="limit_headers=1")
    assert reply.all("x-ratelimit-remaining-requests") == ["122"]


@pytest.mark.parametrize("path, kind", [("/v1/chat/completions", None), ("/v1/messages", "request_too_large")])
def test_a_call_that_can_never_pass_is_413(gate, provider, path, kind):
    envoy = gate(config({"tokens_per_minute": 1000}))
    reply = send(envoy, "rope " * 3000, path=path, max_tokens=5)
    assert reply.status == 413
    assert reply.headers["x-should-retry"] == "false"
    assert reply.headers["x-backpressure-reason"] == "exceeds_limit"
    assert not reply.all("retry-after") and not reply.all("retry-after-ms")
    error = reply.json()["error"]
    assert "1000" in error["message"].replace(",", "")
    assert kind is None or error["type"] == kind
    assert provider.total()["requests"] == 0
    assert send(envoy).status == 200


def test_a_caller_that_returns_when_told_is_admitted(gate, provider):
    envoy = gate(config({"requests_per_minute": 40}, burst_seconds=1))
    assert send(envoy, "first").status == 200
    denied = send(envoy, "second")
    assert denied.status == 429
    time.sleep(int(denied.headers["retry-after-ms"]) / 1000)
    assert send(envoy, "second").status == 200


def test_callers_refused_together_are_told_different_times(gate, provider):
    envoy = gate(config({"requests_per_minute": 30}, burst_seconds=1))
    assert send(envoy).status == 200
    replies = parallel(6, lambda index: send(envoy, f"call {index}"))
    told = sorted(int(reply.headers["retry-after-ms"]) for reply in replies)
    assert statuses(replies) == {429: 6}
    assert all(later - earlier > 500 for earlier, later in zip(told, told[1:])), told


def test_shadow_mode_lets_everything_through_and_counts_it(gate, provider):
    envoy = gate(config({"requests_per_minute": 2}, top={"mode": "shadow"}))
    assert statuses([send(envoy) for _ in range(6)]) == {200: 6}
    assert envoy.metric("requests", decision="shadow_denied") == 4


def test_shadow_mode_counts_what_would_only_have_waited_as_parked(gate, provider):
    envoy = gate(config({"requests_per_minute": 30}, top={"mode": "shadow"}, burst_seconds=2, max_wait_ms=5000), workers=1)
    started = time.monotonic()
    replies = [send(envoy) for _ in range(5)]
    assert time.monotonic() - started < 2, "nobody waits"
    assert statuses(replies) == {200: 5}
    assert [reply.headers.get("x-backpressure-shadow") for reply in replies] == [None, None, None, "denied", "denied"]
    assert {kind: envoy.metric("requests", decision=kind) for kind in ("admitted", "parked", "shadow_denied", "denied")} == {
        "admitted": 1, "parked": 2, "shadow_denied": 2, "denied": 0}
    eventually(lambda: envoy.metric("wait_ms_count") == 2, what="the histogram")
    eventually(lambda: len(envoy.access_entries()) == 5, what="the access log")
    gates = [json.loads(entry["gate"]) for entry in envoy.access_entries()]
    assert [gate["decision"] for gate in gates] == ["admitted", "parked", "parked", "shadow_denied", "shadow_denied"]


def test_a_body_that_is_no_json_passes_unchanged_and_costs_a_request(gate, provider):
    envoy = gate(config({"requests_per_minute": 2}))
    for body in (b"{not json", b"\xff\xfe\x00", b"[" * 100_000):
        assert call(envoy.port, body).status in (200, 429)
    assert provider.total()["requests"] == 2
    assert [arrival["body_size"] for arrival in provider.stats()["recent"]] == [9, 3]
    assert json.loads(send(envoy).body)["error"]
