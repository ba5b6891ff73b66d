"""The gate beside naive retry, on real Envoy with two workers: `make demo`. Takes about a minute.

Three tenants send three times what a provider's caps allow, first straight to the provider, backing off as clients
do without being told anything, then through the gate. Ends with one table, and with an error if the provider had to
answer a single 429 behind the gate.
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import Envoy, Provider, wasm_filter
from harness.provider import loadgen_command

SECONDS = 30
RPM, TPM, BURST_SECONDS = 600, 120_000, 10
# What the cap lets through in the run: the rate all the time, and the full bucket at its start.
ALLOWED = TPM * (SECONDS + BURST_SECONDS) / 60

CONFIG = {
    "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
    "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
    "default_class": "normal",
    "tenants": {"acme": {}, "beta": {}, "crawler": {}},
    "pools": [{
        "name": "m-chat",
        "match": {"models": ["m-chat"]},
        "limits": {"requests_per_minute": RPM, "tokens_per_minute": TPM},
        "burst_seconds": BURST_SECONDS,
    }],
}

# Together about three times the caps; half of the calls stream.
CALL = {"prompt": 140, "output": 60, "max_tokens": 200, "stream": 0.5}
FLOWS = [
    {"tenant": "acme", "class": "high", "weight": 4, "rate": 4, **CALL},
    {"tenant": "beta", "class": "normal", "weight": 2, "rate": 10, "api": "messages", **CALL},
    {"tenant": "crawler", "class": "low", "weight": 1, "rate": 16, **CALL},
]


def load(title, port, retry):
    """Runs the load, showing its progress, and returns the summary."""
    print(f"\n{title}", flush=True)
    command = loadgen_command(port, FLOWS, seconds=SECONDS, retry=retry, rpm=RPM, tpm=TPM, seed=7, progress=True)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in child.stderr:
            show(json.loads(line))
        summary = json.loads(child.stdout.read())
    finally:
        child.kill()
        child.wait()
    if sys.stdout.isatty():
        print()
    return summary


def show(progress):
    line = (f"  {progress['t']:2d} s   admitted {progress['admitted']:5d}   denied by the gate {progress['gate_denied']:5d}"
            f"   429s of the provider {progress['provider_429']:5d}   waiting {progress['waiting']:4d}")
    if sys.stdout.isatty():
        print(f"\r{line}", end="", flush=True)
    elif progress["t"] % 5 == 0:
        print(line, flush=True)


def wait(figures, name):
    value = figures[name]
    return f"{value:.2f} s" if value is not None else f">= {figures['wait_floor_s']:.0f} s"


def rows(title, summary):
    yield [title] + [""] * 7
    for name, figures in [*summary["flows"].items(), ("all", summary["total"])]:
        share = f" ({figures['llm_tokens'] / ALLOWED:.0%} of cap)" if name == "all" else ""
        yield [f"  {name}", figures["calls"], figures["admitted"], figures["gate_denied"], figures["provider_429"],
               f"{figures['llm_tokens_per_minute']:,.0f}{share}", wait(figures, "wait_p50_s"), wait(figures, "wait_p99_s")]


def table(parts):
    head = ["", "calls", "admitted", "denied", "upstream 429s", "tokens/min", "wait p50", "wait p99"]
    lines = [head] + [row for title, summary in parts for row in rows(title, summary)]
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(head))]
    for number, line in enumerate(lines):
        cells = [str(line[0]).ljust(widths[0])] + [str(cell).rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))


def main():
    print(f"A provider that allows {RPM} requests and {TPM:,} tokens a minute (a bucket of {BURST_SECONDS} s), and three"
          f" tenants who want three times that.")
    with Provider(rpm=RPM, tpm=TPM, burst_seconds=BURST_SECONDS) as provider:
        direct = load(f"1. Straight to the provider, naive retry, {SECONDS} s", provider.port, "naive")
        provider.configure(limits={"rpm": RPM, "tpm": TPM, "burst_seconds": BURST_SECONDS})
        provider.reset()
        with Envoy(provider.port, [wasm_filter(CONFIG)], workers=2) as envoy:
            gate = load(f"2. Through the gate, Envoy with 2 workers, {SECONDS} s", envoy.port, "obey")
        limited = provider.total()["limited"]
    print()
    table([("straight to the provider", direct), ("through the gate", gate)])
    print(f"\nThe cap allows {ALLOWED:,.0f} tokens in {SECONDS} s: {TPM:,} a minute and a bucket of {BURST_SECONDS} s to begin with.")
    print("Waits are from the first try to the answer, those still waiting at the end included (Kaplan-Meier).")
    if limited:
        print(f"FAILED: the provider answered {limited} calls with 429 behind the gate; it must be none.")
    if not gate["total"]["admitted"]:
        print("FAILED: nothing was admitted through the gate.")
    return 1 if limited or not gate["total"]["admitted"] else 0


if __name__ == "__main__":
    sys.exit(main())
