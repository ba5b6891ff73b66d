"""What operators see."""

import json
import re

from gatekit import FREE, config, eventually, send, settled
from harness import call

LIMITS = {"requests_per_minute": 3, "tokens_per_minute": 10_000}
ACME = {"x-tenant": "acme", "x-priority": "high"}


def used(gate):
    envoy = gate(config(LIMITS))
    for index in range(5):
        send(envoy, f"call {index}", output=20, headers=ACME)
    settled(envoy, "output", 60)
    return envoy


def test_prometheus_shows_the_names_and_labels(gate, provider):
    envoy = used(gate)
    flow = {"pool": "m-chat", "class": "high", "tenant": "acme"}
    samples = envoy.prometheus("backpressure_")
    assert samples["backpressure_requests", frozenset({**flow, "decision": "admitted"}.items())] == 3
    assert samples["backpressure_requests", frozenset({**flow, "decision": "denied"}.items())] == 2
    assert samples["backpressure_tokens", frozenset({**flow, "kind": "output"}.items())] == 60
    assert envoy.metric("tokens", kind="reserved", **flow) >= 60
    assert envoy.metric("tokens", kind="input", **flow) == provider.total()["input"]
    gauges = {name for name, _ in samples}
    for name in ("available", "in_flight"):
        assert f"backpressure_{name}" in gauges
    assert envoy.metric("in_flight", pool="m-chat") == 0


def test_the_stats_page_has_the_same_names_with_segments(gate, provider):
    envoy = used(gate)
    names = envoy.stats("backpressure")
    ours = [name for name in names if name.startswith("wasmcustom.")]
    assert any("requests" in name and "decision.=.admitted;." in name and "pool.=.m-chat;." in name for name in ours)
    assert all(re.fullmatch(r"[\w.=;-]+", name) for name in ours)


def test_tenants_that_nobody_configured_are_other(gate, provider):
    envoy = gate(config({"requests_per_minute": 500}))
    before = len(envoy.prometheus("backpressure_requests"))
    for index in range(60):
        assert send(envoy, headers={"x-tenant": f"tenant-{index}", "x-priority": f"class-{index}"}).status == 200
    assert envoy.metric("requests", tenant="other", decision="admitted", **{"class": "normal"}) == 60
    assert len(envoy.prometheus("backpressure_requests")) - before <= 4


def test_unmatched_calls_are_counted(gate, provider):
    envoy = gate(config(LIMITS, match={"models": ["another"]}))
    for _ in range(4):
        assert send(envoy).status == 200
    assert envoy.metric("unmatched") == 4


def test_the_access_log_says_what_was_decided_and_used(gate, provider):
    envoy = gate(config(LIMITS))
    for index in range(4):
        send(envoy, f"call {index}", output=20, headers={**ACME, "x-mark": str(index)})
    call(envoy.port, path="/v1/models", method="GET", headers={"x-mark": "models"})
    eventually(lambda: len(envoy.access_entries()) >= 5, what="the access log")
    entries = {entry["mark"]: entry for entry in envoy.access_entries()}
    admitted, denied = (json.loads(entries[mark]["gate"]) for mark in ("0", "3"))
    assert (admitted["decision"], admitted["pool"], admitted["class"], admitted["tenant"]) == ("admitted", "m-chat", "high", "acme")
    assert (denied["decision"], denied["reason"]) == ("denied", "exhausted")
    assert admitted["wait_ms"] == 0 and admitted["reserved"] and admitted["used"]


def test_credentials_are_never_shown(gate, provider):
    top = {"identity": {"tenant": [{"api_key": True}]}}
    envoy = gate(config({"requests_per_minute": 2, "tokens_per_minute": FREE}, top=top))
    for _ in range(3):
        send(envoy, headers={"authorization": "Bearer sk-very-secret"})
    eventually(lambda: len(envoy.access_entries()) >= 3, what="the access log")
    seen = envoy.admin("/stats") + envoy.log() + envoy.access_log.read_text()
    assert "very-secret" not in seen
