"""A long run on real Envoy: `soak.py SECONDS [PART]`, at PART (0.6) of the machine's processors.

Chat completions, messages and embeddings, streamed or not, with and without usage, plain and compressed; a provider that fails,
resets and babbles now and then; clients that go away; a reload each minute. At the end:

- memory is flat: Envoy's mean over the last third is at most 2 % above that of the middle third, after a minute in which
  buffers and machines reach their sizes;
- every admitted call was settled: nobody is in flight, long before any reservation would expire;
- nobody was refused, and every anomaly is of a kind that the load asks for.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "e2e")]

import chaos  # noqa: E402
import gatekit  # noqa: E402
from harness import Envoy, Provider  # noqa: E402
from harness.processes import wait_until  # noqa: E402
from harness.provider import loadgen_command  # noqa: E402

# Part of all calls, and what they are.
FLOWS = [
    (0.30, {"tenant": "acme", "class": "high"}),
    (0.20, {"tenant": "acme", "stream": 1, "mock": "chunks=6"}),
    (0.20, {"tenant": "beta", "api": "messages", "stream": 0.5}),
    (0.10, {"tenant": "beta", "class": "low", "api": "embeddings"}),
    (0.08, {"tenant": "odd", "stream": 1, "mock": "usage=omit;chunks=4"}),
    (0.05, {"tenant": "odd", "mock": "gzip=1"}),
    (0.03, {"tenant": "odd", "mock": "garbage=1"}),
    (0.02, {"tenant": "odd", "mock": "status=500"}),
    (0.02, {"tenant": "odd", "stream": 1, "mock": "reset_after=2"}),
]
# Answers without usage, garbage and streams that were cut are in the load.
EXPLAINED = {"usage_missing", "usage_partial", "usage_unreadable", "cas_exhausted", "settle_deferred"}
WARM_UP = 60
LIMITS = {"requests_per_minute": 10_000_000, "tokens_per_minute": 10**9, "concurrent_requests": 100_000}


def config(number):
    learn = {"headers": True, "pause_on_429": False, "adapt": False}
    return gatekit.config(LIMITS, default_output_tokens=100 + number % 2, learn=learn, max_wait_ms=500)


def load(port, rate, seconds):
    common = {"prompt": 80, "output": 40, "max_tokens": 80}
    flows = [{**common, **flow, "rate": round(rate * part, 2)} for part, flow in FLOWS]
    return subprocess.Popen(loadgen_command(port, flows, seconds=seconds, retry="none"), stdout=subprocess.PIPE, text=True)


def cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def calibrated(gate, envoy, provider, part):
    """Calls a second that keep all processes together at `part` of the processors."""
    seconds, rate = 5, 200
    for _ in range(2):
        pids = [envoy.process.pid, provider.process.pid]
        before = sum(map(cpu, pids))
        began, child = time.monotonic(), load(gate.port, rate, seconds)
        time.sleep(seconds - 0.5)
        used, took = sum(map(cpu, pids)) - before + cpu(child.pid), time.monotonic() - began
        child.communicate()
        rate = rate * part * os.cpu_count() / max(used / took, 0.01)
        rate = min(rate, 5_000)
    return rate


def main():
    seconds = int(sys.argv[1])
    part = float(sys.argv[2]) if len(sys.argv) > 2 else 0.6
    with Provider() as provider, Envoy(provider.port, [gatekit.wasm_filter(config(0))]) as envoy:
        with gatekit.Gate(envoy, config(0)) as gate:
            rate = calibrated(gate, envoy, provider, part)
            print(f"{rate:.0f} calls a second for {seconds} s", flush=True)
            child, memory, reloads = load(gate.port, rate, seconds), [], 0
            began = time.monotonic()
            while (at := time.monotonic() - began) < seconds:
                if at > WARM_UP:
                    memory.append(envoy.process.resident_bytes() / 1e6)
                if at > (20 * reloads + 5 if at < WARM_UP else 60 * reloads - 60):
                    reloads += 1
                    assert gate.reload(config(reloads))
                    chaos.cancelling_clients(gate.port, 100, 4, seed=reloads)
                time.sleep(1)
            total = json.loads(child.communicate()[0])["total"]
            settled = True
            try:
                wait_until(lambda: gate.metric("in_flight") == 0 and gate.metric("parked") == 0, 20, "all settled")
            except TimeoutError:
                settled = False
            third = len(memory) // 3
            middle, last = statistics.mean(memory[third:2 * third]), statistics.mean(memory[2 * third:])
            admitted = gate.metric("requests", decision="admitted") + gate.metric("requests", decision="parked")
            in_flight = gate.metric("in_flight")
            anomalies = {dict(labels)["reason"]: int(count) for labels, count in gate.samples("anomalies").items() if count}
            print(json.dumps({
                "calls": total["calls"], "admitted": int(admitted), "settled_of_admitted": (admitted - in_flight) / max(admitted, 1),
                "refused": total["gate_denied"], "failed_open": int(gate.metric("requests", decision="failed_open")),
                "anomalies": anomalies, "reloads": reloads,
                "memory_mb": {"first": round(memory[0], 1), "middle": round(middle, 1), "last": round(last, 1), "ratio": round(last / middle, 4),
                              "series": [round(value) for value in memory[::max(len(memory) // 20, 1)]]},
            }, indent=1))
            problems = [
                name for name, wrong in [
                    ("memory grows", last > middle * 1.02),
                    ("calls that were not settled", not settled),
                    ("calls were refused", total["gate_denied"] > 0),
                    ("anomalies that the load does not explain", bool(set(anomalies) - EXPLAINED)),
                ] if wrong]
            print("passed" if not problems else "FAILED: " + ", ".join(problems))
            return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
