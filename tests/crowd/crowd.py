"""Official OpenAI and Anthropic clients, Python and Node, default settings, at 2.5 times the cap, on real Envoy.

Four processes, one for each client, with equal tenants. Each caller thinks, calls, and thinks again. The caps let through
what 2 of 5 callers want, so that a fair wait is one and a half times the thinking. Defaults of all four: two retries,
told times up to a minute obeyed.

    crowd.py [--short] [--check]     --check: exit 1 unless behind the gate every call succeeds
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))

from harness import Envoy, Provider, wasm_filter

CLIENTS = [(language, kind) for language in ("python", "node") for kind in ("openai", "anthropic")]
OVER, BURST, WORKERS = 2.5, 10, 4


def start(language, kind, port, options):
    program = [sys.executable, HERE / "callers.py"] if language == "python" else ["node", HERE / "callers.mjs"]
    return subprocess.Popen([*program, kind, str(port), json.dumps(options)], stdout=subprocess.PIPE, text=True)


def crowd(port, options):
    """Runs all clients to their end; outcome by client."""
    running = {f"{language} {kind}": start(language, kind, port, options) for language, kind in CLIENTS}
    outcomes = {}
    try:
        for name, process in running.items():
            text, _ = process.communicate(timeout=options["seconds"] + 180)
            outcomes[name] = json.loads(text)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return outcomes


def settings(rpm):
    """Everything but the limit as it is by default; one tenant for each client."""
    return {
        "identity": {"tenant": [{"header": "x-tenant"}]},
        "tenants": {f"{language}-{kind}": {} for language, kind in CLIENTS},
        "pools": [{"name": "m-chat", "limits": {"requests_per_minute": rpm}}],
    }


def show(title, outcomes):
    """Prints a part of the table; returns calls and failed calls."""
    print(f"\n{title}")
    calls = failed = 0
    for name, outcome in outcomes.items():
        lost = sum(outcome["failed"].values())
        calls, failed = calls + outcome["ok"] + lost, failed + lost
        print(f"  {name:18} {outcome['ok']:5} succeeded, {lost:5} failed {outcome['failed'] or ''}, longest {outcome['longest']:.1f} s")
    print(f"  all                {calls - failed:5} succeeded, {failed:5} failed: {failed / max(calls, 1):.1%}", flush=True)
    return calls, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="half a minute, the gate only")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    # A cap of `rpm` serves rpm / 60 * think / OVER of the callers' wishes.
    rpm, think, seconds = (600, 3, 12) if given.short else (240, 24, 150)
    callers = round(OVER * rpm / 60 * think / len(CLIENTS))
    options = {"callers": callers, "think": think, "seconds": seconds}
    print(f"{callers} callers of each of {len(CLIENTS)} clients, {OVER} times the cap of {rpm} requests a minute")
    with Provider(rpm=rpm, burst_seconds=BURST) as provider:
        if not given.short:
            show("straight to the provider", crowd(provider.port, options))
            provider.reset()
        with Envoy(provider.port, [wasm_filter(settings(rpm))], workers=WORKERS) as envoy:
            calls, failed = show("through the gate", crowd(envoy.port, options))
        refused = provider.total()["limited"]
    print(f"  429s of the provider: {refused}")
    return 1 if given.check and (failed or refused or not calls) else 0


if __name__ == "__main__":
    sys.exit(main())
