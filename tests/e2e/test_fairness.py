"""A short run of the fairness scenario on real Envoy; the exact bounds are the simulator's."""

from gatekit import config
from harness import loadgen

RPM, TPM, BURST = 600, 120_000, 10
CALL = {"prompt": 140, "output": 60, "max_tokens": 120, "stream": 0.3, "callers": 20}
FLOWS = [{"tenant": f"t-{name}", "class": name, "weight": weight, **CALL} for name, weight in [("high", 4), ("normal", 2), ("low", 1)]]


def test_saturated_classes_share_by_weight_and_the_provider_never_refuses(gate, provider):
    provider.configure(limits={"rpm": RPM, "tpm": TPM, "burst_seconds": BURST})
    envoy = gate(config({"requests_per_minute": RPM, "tokens_per_minute": TPM}, burst_seconds=BURST), workers=4)
    summary = loadgen(envoy.port, FLOWS, seconds=25, warmup=8, rpm=RPM, tpm=TPM, retry="obey")
    assert summary["total"]["provider_429"] == 0
    assert summary["total"]["errors"] == 0
    assert summary["jain"] >= 0.9
    assert max(summary["use_requests"], summary["use_llm_tokens"]) >= 0.85
    assert summary["total"]["tries_per_admitted"] <= 4
