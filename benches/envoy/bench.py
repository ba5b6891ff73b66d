"""What the filter costs in real Envoy: one worker on a core of its own, saturated, no cap binding.

Compared: bare Envoy, its native local_ratelimit, a wasm filter that does nothing, and the gate. Rounds alternate, so
that a noisy machine hits all alike; ratios are taken within a round, the median over rounds is shown. Needs two cores:
Envoy has the first, the load and the provider share the second.

    bench.py [--seconds 1] [--rounds 9] [--only throughput,latency,memory,startup] [--check]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Provider, module_path, wasm_filter
from harness.envoy import HTTP_FILTERS

SIZES = {"1 KB": 1_000, "16 KB": 16_000, "200 KB": 200_000}
ENVOY_CORE, LOAD_CORE = 0, 1

# Least throughput beside the filter that does nothing, and most CPU added to bare Envoy in microseconds a call.
LEAST_RATIO = {"1 KB": 0.90, "16 KB": 0.85, "200 KB": 0.75}
MOST_ADDED_CPU = {"1 KB": 15, "16 KB": 20, "200 KB": 80}
MOST_ADDED_P50_MS = 0.1
MOST_STARTUP_MS = 300
MOST_GROWTH_MIB = 4
MEMORY_CALLS = 200_000

GATE = {
    "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
    "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
    "default_class": "normal",
    "tenants": {"acme": {"weight": 3}, "beta": {"weight": 1}},
    "pools": [{
        "name": "m-chat",
        "match": {"models": ["m-chat"]},
        "limits": {"requests_per_minute": 1_000_000_000, "tokens_per_minute": 1_000_000_000_000},
        "burst_seconds": 60,
    }],
}

LOCAL_RATELIMIT = {"name": "local", "typed_config": {
    "@type": f"{HTTP_FILTERS}.local_ratelimit.v3.LocalRateLimit",
    "stat_prefix": "local",
    "token_bucket": {"max_tokens": 1_000_000_000, "tokens_per_fill": 1_000_000_000, "fill_interval": "60s"},
    "filter_enabled": {"default_value": {"numerator": 100}},
    "filter_enforced": {"default_value": {"numerator": 100}},
}}

SCRIPT = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.headers["host"] = "llm.test"
wrk.headers["x-tenant"] = "acme"
wrk.headers["x-priority"] = "high"
wrk.body = [==[%s]==]
done = function(summary, latency)
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  io.write(string.format("\\nRESULT {\\"calls\\": %%d, \\"us\\": %%d, \\"errors\\": %%d, \\"p50_us\\": %%d, \\"p99_us\\": %%d}\\n",
    summary.requests, summary.duration, errors, latency:percentile(50), latency:percentile(99)))
end
"""

WORDS = "The gate prices every call before it leaves and tells a refused caller when to come back. "


def variants():
    return {
        "bare": [],
        "local_ratelimit": [LOCAL_RATELIMIT],
        "noop": [wasm_filter({}, module=module_path("noop"))],
        "gate": [wasm_filter(GATE)],
    }


def body(size):
    messages = [{"role": "system", "content": "You are a rigger."}]
    while len(json.dumps(messages)) < size - 1200:
        messages.append({"role": "user", "content": (WORDS * 12)[:1000]})
    messages.append({"role": "user", "content": (WORDS * 40)[:max(0, size - len(json.dumps(messages)) - 120)]})
    return json.dumps({"model": "m-chat", "max_tokens": 200, "messages": messages})


def wrk(port, size, seconds, connections):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % body(size))
        script.flush()
        command = ["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name,
                   f"http://127.0.0.1:{port}/v1/chat/completions"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = json.loads(text.split("RESULT ", 1)[1])
    if result["errors"]:
        raise RuntimeError(f"{result['errors']} of {result['calls']} calls failed")
    return result


def rotated(envoys, by):
    """The same order in every round would favour somebody."""
    items = list(envoys.items())
    by %= len(items)
    return items[by:] + items[:by]


def throughput(envoys, seconds, rounds):
    """Per size: variant -> list over rounds of (calls a second, CPU microseconds a call)."""
    out = {}
    for title, size in SIZES.items():
        runs = {name: [] for name in envoys}
        for name, envoy in envoys.items():
            wrk(envoy.port, size, 1, 32)
        for round_ in range(rounds):
            for name, envoy in rotated(envoys, round_):
                before = envoy.process.cpu_seconds()
                result = wrk(envoy.port, size, seconds, 32)
                used = envoy.process.cpu_seconds() - before
                runs[name].append((result["calls"] * 1e6 / result["us"], used * 1e6 / result["calls"]))
        out[title] = runs
    return out


def latency(envoys, seconds, rounds):
    """Variant -> median p50 in milliseconds of one caller at a time, 1 KB."""
    runs = {name: [] for name in envoys}
    for round_ in range(rounds):
        for name, envoy in rotated(envoys, round_):
            runs[name].append(wrk(envoy.port, SIZES["1 KB"], seconds, 1)["p50_us"] / 1000)
    return {name: statistics.median(values) for name, values in runs.items()}


def memory(envoy):
    """Resident MiB after a warm-up and after `MEMORY_CALLS` more."""
    mib = 1024 * 1024
    wrk(envoy.port, SIZES["1 KB"], 3, 64)
    before, calls = envoy.process.resident_bytes() / mib, 0
    while calls < MEMORY_CALLS:
        calls += wrk(envoy.port, SIZES["1 KB"], 3, 64)["calls"]
    return before, envoy.process.resident_bytes() / mib, calls


def startup(provider, filters, rounds):
    """Median milliseconds from the start of the process to the first accepted connection."""
    times = []
    for _ in range(rounds):
        started = time.monotonic()
        with Envoy(provider.port, filters, workers=1, cores=ENVOY_CORE):
            times.append((time.monotonic() - started) * 1000)
    return statistics.median(times)


class Verdicts:
    """Figures beside their targets."""

    def __init__(self):
        self.missed = []

    def mark(self, holds, what):
        if not holds:
            self.missed.append(what)
        return "ok" if holds else "MISSED"


def show_throughput(measured, verdicts):
    print(f"\n{'body':8} {'filter':16} {'calls/s':>9} {'of bare':>8} {'of noop':>8} {'CPU us':>8} {'added us':>9}")
    for size, runs in measured.items():
        for name, values in runs.items():
            rate = statistics.median(rate for rate, _ in values)
            cpu = statistics.median(cpu for _, cpu in values)
            of_bare, of_noop = (statistics.median(mine[0] / other[0] for mine, other in zip(values, runs[base]))
                                for base in ("bare", "noop"))
            added = statistics.median(mine[1] - other[1] for mine, other in zip(values, runs["bare"]))
            verdict = ""
            if name == "gate":
                ratio = verdicts.mark(of_noop >= LEAST_RATIO[size], f"{size}: throughput")
                extra = verdicts.mark(added <= MOST_ADDED_CPU[size], f"{size}: CPU")
                verdict = f"  >= {LEAST_RATIO[size]:.2f} of noop: {ratio}; <= {MOST_ADDED_CPU[size]} us: {extra}"
            print(f"{size:8} {name:16} {rate:9,.0f} {of_bare:8.2f} {of_noop:8.2f} {cpu:8.1f} {added:9.1f}{verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="throughput,latency,memory,startup")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    options = parser.parse_args()
    parts = options.only.split(",")
    verdicts = Verdicts()
    filters = variants()
    with Provider(fast=True, cores=LOAD_CORE) as provider:
        if "startup" in parts:
            times = {name: startup(provider, filters[name], options.rounds) for name in ("bare", "noop", "gate")}
            verdict = verdicts.mark(times["gate"] <= MOST_STARTUP_MS, "start-up")
            print("start-up ms: " + ", ".join(f"{name} {value:.0f}" for name, value in times.items()),
                  f"(gate <= {MOST_STARTUP_MS}: {verdict})")
        envoys = {name: Envoy(provider.port, chain, workers=1, cores=ENVOY_CORE) for name, chain in filters.items()}
        try:
            for envoy in envoys.values():
                envoy.__enter__()
            if "latency" in parts:
                p50 = latency(envoys, options.seconds, options.rounds)
                added = p50["gate"] - p50["bare"]
                verdict = verdicts.mark(added <= MOST_ADDED_P50_MS, "added p50")
                print("p50 ms, one caller, 1 KB: " + ", ".join(f"{name} {value:.3f}" for name, value in p50.items()),
                      f"(gate adds {added:.3f}, <= {MOST_ADDED_P50_MS}: {verdict})")
            if "throughput" in parts:
                show_throughput(throughput(envoys, options.seconds, options.rounds), verdicts)
            if "memory" in parts:
                before, after, calls = memory(envoys["gate"])
                verdict = verdicts.mark(after - before <= MOST_GROWTH_MIB, "memory")
                print(f"\nmemory of the gate's Envoy: {before:.1f} MiB, after {calls:,} calls {after:.1f} MiB"
                      f" (growth <= {MOST_GROWTH_MIB} MiB: {verdict})")
        finally:
            for envoy in envoys.values():
                envoy.__exit__()
    if verdicts.missed:
        print("missed: " + ", ".join(verdicts.missed))
    return 1 if options.check and verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
