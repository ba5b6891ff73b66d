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
    flow = {"pool": envoy.pool(), "class": "high", "tenant": "acme"}
    requests, llm_tokens = envoy.samples("requests"), envoy.samples("tokens")
    assert requests[frozenset({**flow, "decision": "admitted"}.items())] == 3
    assert requests[frozenset({**flow, "decision": "denied"}.items())] == 2
    assert llm_tokens[frozenset({**flow, "kind": "output"}.items())] == 60
    assert envoy.metric("tokens", kind="reserved", **flow) >= 60
    assert envoy.metric("tokens", kind="input", **flow) == provider.total()["input"]
    eventually(lambda: envoy.samples("in_flight") and envoy.samples("available"), what="gauges")
    assert envoy.metric("in_flight", pool=envoy.pool()) == 0
    eventually(lambda: envoy.metric("available", resource="requests") == 0, what="nothing left")


def test_the_stats_page_has_the_same_names_with_segments(gate, provider):
    envoy = used(gate)
    ours = [name for name in envoy.envoy.stats(envoy.pool()) if name.startswith("wasmcustom.")]
    assert any("requests" in name and "decision.=.admitted;." in name and f"pool.=.{envoy.pool()};." in name for name in ours)
    assert all(re.fullmatch(r"[\w.=;-]+", name) for name in ours)


def test_tenants_that_nobody_configured_are_other(gate, provider):
    envoy = gate(config({"requests_per_minute": 500}))
    for index in range(60):
        assert send(envoy, headers={"x-tenant": f"tenant-{index}", "x-priority": f"class-{index}"}).status == 200
    assert envoy.metric("requests", tenant="other", decision="admitted", **{"class": "normal"}) == 60
    assert len(envoy.samples("requests")) <= 2


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
    assert (admitted["decision"], admitted["pool"], admitted["class"], admitted["tenant"]) == ("admitted", envoy.pool(), "high", "acme")
    assert (denied["decision"], denied["reason"]) == ("denied", "exhausted")
    assert admitted["wait_ms"] == 0 and admitted["reserved"] and admitted["used"]


def test_credentials_are_never_shown(gate, provider):
    top = {"identity": {"tenant": [{"api_key": True}]}}
    envoy = gate(config({"requests_per_minute": 2, "tokens_per_minute": FREE}, top=top))
    for _ in range(3):
        send(envoy, headers={"authorization": "Bearer sk-very-secret"})
    eventually(lambda: len(envoy.access_entries()) >= 3, what="the access log")
    seen = envoy.envoy.admin("/stats") + envoy.log() + envoy.access_log.read_text()
    assert "very-secret" not in seen


def test_numbers_and_truth_values_of_attributes_name_tenants_and_classes(gate, provider):
    def metadata(**value):
        kind = "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config"
        return {"name": "who", "typed_config": {"@type": kind, "metadata": [{"metadata_namespace": "who", "value": value}]}}

    def source(name):
        return [{"property": ["metadata", "filter_metadata", "who", name]}]

    rule = config({"requests_per_minute": 100}, top={
        "identity": {"tenant": source("org"), "class": source("urgent")},
        "classes": {"true": {"weight": 4}, "normal": {"weight": 1}},
        "tenants": {"4711": {"weight": 3}},
    })
    envoy = gate(rule, before=[metadata(org=4711, urgent=True)])
    assert send(envoy).status == 200
    assert envoy.metric("requests", tenant="4711", **{"class": "true"}) == 1
