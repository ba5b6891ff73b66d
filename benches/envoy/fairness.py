"""How the gate shares a cap on real Envoy: four workers, saturated for a minute, beside naive retry.

Each load runs for `--seconds` after a warm-up, through the gate to a provider that enforces the same limits with a token
bucket. The load whose tail is compared runs once more straight to the provider, backing off as clients do that are told
nothing. Loads of callers in a closed loop: each begins its next call when the last one ended.

    fairness.py [--seconds 60] [--only part of a name] [--check]
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Provider, loadgen, wasm_filter

WORKERS, BURST, WARM_UP = 4, 10, 15
WEIGHTS = {"high": 4, "normal": 2, "low": 1}

# Bounds of the contract for real Envoy.
JAIN, USE, KEPT, TRIES, TAIL = 0.98, 0.95, 0.90, 2.6, 8


def classes(callers, prompts=(140, 140, 140), outputs=(60, 60, 60), **more):
    """A tenant per class; `more` gives further members of single classes."""
    return [{"tenant": f"t-{name}", "class": name, "weight": weight, "callers": count, "prompt": prompt, "output": output,
             "max_tokens": output * 2, "stream": 0.3, **more.get(name, {})}
            for (name, weight), count, prompt, output in zip(WEIGHTS.items(), callers, prompts, outputs)]


# name: limits, callers, strict window, seconds until it is counted. A strict window gives away a burst and a minute at the
# limit in its first minute, so it stands still at the end of that: counted is what comes after.
LOADS = {
    "token-bound": ((3000, 300_000), classes((30, 30, 30)), False, WARM_UP),
    "token-bound, strict window": ((3000, 300_000), classes((30, 30, 30)), True, 75),
    "request-bound": ((1200, 600_000), classes((30, 30, 30)), False, WARM_UP),
    "mixed dominant resource": ((1200, 300_000), classes((30, 30, 30), (60, 180, 700), (30, 100, 300)), False, WARM_UP),
    "uneven demand": ((3000, 300_000), classes((25, 60, 100)), False, 2 * WARM_UP),
    "late high class": ((3000, 300_000), classes((20, 30, 30), high={"start_ms": 15_000}), False, 2 * WARM_UP),
}
COMPARED = "token-bound"


def config(rpm, tpm, strict):
    return {
        "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
        "classes": {name: {"weight": weight} for name, weight in WEIGHTS.items()},
        "default_class": "normal",
        "tenants": {f"t-{name}": {} for name in WEIGHTS},
        "pools": [{
            "name": "m-chat",
            "limits": {"requests_per_minute": rpm, "tokens_per_minute": tpm},
            "burst_seconds": BURST,
            "strict_window": strict,
        }],
    }


def play(name, seconds, gated):
    """Runs a load and returns its summary."""
    (rpm, tpm), flows, strict, warm_up = LOADS[name]
    options = {"seconds": warm_up + seconds, "warmup": warm_up, "rpm": rpm, "tpm": tpm}
    with Provider(rpm=rpm, tpm=tpm, burst_seconds=BURST) as provider:
        if not gated:
            return loadgen(provider.port, flows, retry="naive", **options)
        with Envoy(provider.port, [wasm_filter(config(rpm, tpm, strict))], workers=WORKERS) as envoy:
            return loadgen(envoy.port, flows, retry="obey", **options)


def tail(summary):
    """99th percentile of the high class's waits, and whether it is only known to be at least that."""
    figures = summary["flows"]["t-high/high"]
    reached = figures["wait_p99_s"]
    return (figures["wait_floor_s"], True) if reached is None else (reached, False)


class Verdicts:
    def __init__(self):
        self.missed = 0

    def mark(self, holds, text):
        self.missed += not holds
        return text if holds else f"{text} MISSED"


def row(name, summary, verdicts):
    total, mark = summary["total"], verdicts.mark
    use = max(summary["use_requests"], summary["use_llm_tokens"])
    kept = total["first_returns_kept"] / max(total["first_returns"], 1)
    wait, _ = tail(summary)
    return [name, mark(summary["jain"] >= JAIN, f"{summary['jain']:.4f}"), mark(use >= USE, f"{use:.3f}"),
            mark(kept >= KEPT, f"{kept:.1%} of {total['first_returns']}"),
            mark(total["tries_per_admitted"] <= TRIES, f"{total['tries_per_admitted']:.2f}"),
            mark(total["provider_429"] == 0, str(total["provider_429"])), mark(total["errors"] == 0, str(total["errors"])),
            f"{wait:.2f} s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound of the contract is missed")
    options = parser.parse_args()
    verdicts = Verdicts()
    head = ["load", f"Jain >= {JAIN}", f"use >= {USE}", f"kept >= {KEPT:.0%}", f"tries <= {TRIES}", "429s = 0", "errors = 0",
            "high p99"]
    lines, gated = [head], {}
    for name in LOADS:
        if options.only in name:
            gated[name] = play(name, options.seconds, True)
            lines.append(row(name, gated[name], verdicts))
            print(" | ".join(lines[-1]), flush=True)
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    print()
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    if COMPARED in gated:
        (naive, open_ended), (wait, _) = tail(play(COMPARED, options.seconds, False)), tail(gated[COMPARED])
        times = naive / max(wait, 0.001)
        text = verdicts.mark(times >= TAIL, f"{times:.1f} times lower (at least {TAIL})")
        print(f"\nHigh class, 99th percentile of the wait, {COMPARED}: {wait:.2f} s,"
              f" naive retry {'over ' if open_ended else ''}{naive:.2f} s: {text}")
    return 1 if options.check and verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
