"""Three Envoys, one cap, while the store dies and comes back: `make demo-fleet`. Takes about a minute."""

import contextlib
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "fleet" / "e2e")]

from harness import loadgen  # noqa: E402
from harness.store import installed  # noqa: E402

import conftest  # noqa: E402

FLOWS = [{"tenant": f"t-{name}", "class": name, "weight": weight, "prompt": 140, "output": 60, "max_tokens": 120, "callers": 20}
         for name, weight in [("high", 4), ("normal", 2), ("low", 1)]]
SECONDS = 45


def watch(fleet, stop):
    while not stop.is_set():
        passed = [
            int(sum(value for (_, labels), value in envoy.prometheus("backpressure_requests").items()
                    if ("decision", "admitted") in labels)) for envoy in fleet.envoys]
        refused = fleet.provider.total().get("refused", fleet.provider.total())
        print(f"admitted by each Envoy: {passed}   decided alone: {int(fleet.count('fleet_alone'))}   provider: {refused}", flush=True)
        stop.wait(5)


def main():
    if not installed():
        sys.exit("redis-server and webdis are not installed")
    with contextlib.contextmanager(conftest.start)() as fleet:
        stop = threading.Event()
        threading.Thread(target=watch, args=(fleet, stop), daemon=True).start()

        def disturb():
            time.sleep(SECONDS / 3)
            print("--- the store dies", flush=True)
            fleet.store.kill_redis()
            time.sleep(SECONDS / 6)
            print("--- the store is back, empty", flush=True)
            fleet.store.start_redis()

        threading.Thread(target=disturb, daemon=True).start()
        summary = loadgen(fleet.port, FLOWS, seconds=SECONDS, rpm=conftest.RPM, tpm=conftest.TPM, retry="obey", model=conftest.POOLS[0])
        stop.set()
    total = summary["total"]
    print(f"\nadmitted {total['admitted']}, refused by the provider {total['provider_429']}, Jain {summary['jain']:.3f}, "
          f"use of the binding limit {max(summary['use_requests'], summary['use_llm_tokens']):.2f}")


if __name__ == "__main__":
    main()
