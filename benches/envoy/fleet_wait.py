"""What a fleet's store adds to a call of a pool that nobody waits for: one Envoy with it and one without, call by call in turn.

    fleet_wait.py [CALLS]
"""

import contextlib
import http.client
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from harness import Envoy, Provider, Store, wasm_filter  # noqa: E402
from harness.client import chat  # noqa: E402
from harness.envoy import cluster  # noqa: E402

# Calls begin at this distance, in seconds: a tenth of what the limit allows.
APART, RPM = 0.005, 120_000


def plain(fleet=None):
    limits = {"requests_per_minute": RPM, "tokens_per_minute": 90_000_000}
    config = {"pools": [{"name": "m-chat", "burst_seconds": 60, "output_reserve": "max_tokens", "limits": limits}]}
    return config if fleet is None else {**config, "fleet": fleet}


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
    with contextlib.ExitStack() as exits:
        store = exits.enter_context(Store())
        provider = exits.enter_context(Provider(fast=True))
        with_store = exits.enter_context(Envoy(
            provider.port, [wasm_filter(plain(store.settings(timeout_ms=50)))], workers=1, clusters=[cluster("store", store.port)]))
        without = exits.enter_context(Envoy(provider.port, [wasm_filter(plain())], workers=1))
        body = json.dumps(chat("how long is a rope", max_tokens=20)).encode()
        ways = {}
        for name, envoy in (("store", with_store), ("none", without)):
            ways[name] = (http.client.HTTPConnection("127.0.0.1", envoy.port, timeout=10), [])
        due = time.perf_counter()
        for number in range(calls + 200):
            for connection, waits in ways.values():
                due += APART / len(ways)
                time.sleep(max(0, due - time.perf_counter()))
                began = time.perf_counter()
                connection.request("POST", "/v1/chat/completions", body=body, headers={"host": "llm.test", "content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, answer.status
                # The first ones ask the store, as after every quiet time.
                if number >= 200:
                    waits.append(1000 * (time.perf_counter() - began))
        alone = sum(with_store.prometheus("backpressure_anomalies").values())
        figures = {name: (statistics.median(waits), statistics.quantiles(waits, n=100)[98]) for name, (_, waits) in ways.items()}
    for name, (middle, tail) in figures.items():
        print(f"{name:>6}: p50 {middle:.3f} ms, p99 {tail:.3f} ms")
    print(f" added: p50 {figures['store'][0] - figures['none'][0]:.3f} ms, p99 {figures['store'][1] - figures['none'][1]:.3f} ms; "
          f"{calls} calls each, {alone:.0f} anomalies")


if __name__ == "__main__":
    main()
