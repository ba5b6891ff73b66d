"""What learning is worth on real Envoy, with four workers, against a provider that enforces its caps: `make bench-learn`.

- Others use half of the provider's cap past the gate, which is told the whole cap and adapts. Counted after the first minute:
  the provider may refuse at most 1 % of the gate's calls, and three quarters of the free half must be used.
- Agents declare an output of 32 000 and use 300: calls a minute with the learned reserve against those with the declared one,
  after two minutes, each with an Envoy and a provider of its own. At least 20 times as many, and no refusal by the provider.

The two run beside each other. `learning.py [--seconds 300]`; exits 1 when a bound is missed.
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Provider, loadgen, wasm_filter  # noqa: E402
from harness.provider import loadgen_command  # noqa: E402

WORKERS = 4
CAP, OTHERS = 600, 300
LLM_TOKENS, DECLARED, USED, AGENTS = 300_000, 32_000, 300, 350


def gate(**pool):
    return wasm_filter({
        "identity": {"tenant": [{"header": "x-tenant"}]},
        "pools": [{"name": "m-chat", "max_wait_ms": 0, **pool}],
    })


def refused(total):
    """Part of the calls that reached the provider which it refused."""
    return total["provider_429"] / max(total["provider_429"] + total["admitted"], 1)


def beside_others(seconds):
    warm_up = 60
    flow = {"tenant": "ours", "callers": 60, "prompt": 40, "output": 100, "max_tokens": 300, "mock": "delay_ms=1000"}
    pool = {"limits": {"requests_per_minute": CAP}, "learn": {"adapt": True}}
    with Provider(rpm=CAP) as provider, Envoy(provider.port, [gate(**pool)], workers=WORKERS) as envoy:
        length = warm_up + seconds
        rest = {"tenant": "others", "rate": OTHERS / 60, "prompt": 40, "output": 10}
        command = loadgen_command(provider.port, [rest], seconds=length, retry="none")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as others:
            summary = loadgen(envoy.port, [flow], retry="obey", seconds=length, warmup=warm_up, rpm=CAP)
            others.wait()
        return summary["total"]


def agents(reserve):
    flow = {"tenant": "agents", "callers": AGENTS, "prompt": 20, "output": USED, "max_tokens": DECLARED, "mock": "delay_ms=20000"}
    pool = {"limits": {"tokens_per_minute": LLM_TOKENS}, "output_reserve": reserve}
    with Provider(tpm=LLM_TOKENS) as provider, Envoy(provider.port, [gate(**pool)], workers=WORKERS) as envoy:
        return loadgen(envoy.port, [flow], retry="obey", seconds=240, warmup=120, tpm=LLM_TOKENS)["total"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300, help="counted part of the run beside others")
    options = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        shared = pool.submit(beside_others, options.seconds)
        learned, declared = pool.map(agents, ["learned", "max_tokens"])
        total = shared.result()
    missed = 0

    def line(holds, text):
        nonlocal missed
        missed += not holds
        print(text + ("" if holds else "   MISSED"))

    share, free = refused(total), (CAP - OTHERS) * options.seconds / 60
    line(share <= 0.01, f"half of the cap used by others: the provider refused {share:.2%} of {total['admitted'] + total['provider_429']}"
                        " calls after the first minute (at most 1 %)")
    line(total["admitted"] >= 0.75 * free, f"  calls that passed: {total['admitted'] / free:.2f} of the free half (at least 0.75)")
    times = learned["admitted"] / max(declared["admitted"], 1)
    line(times >= 20, f"agents that declare {DECLARED} and use {USED}: {learned['admitted']} calls pass in two minutes, {declared['admitted']}"
                      f" with the declared reserve: {times:.1f} times (at least 20)")
    line(learned["provider_429"] == 0, f"  refused by the provider: {learned['provider_429']} (0)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
