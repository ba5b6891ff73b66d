"""One cap for three Envoys: exact, shared by weight, and never in the way when the store is not well."""

import threading
import time

from harness import loadgen
from harness.processes import wait_until

from conftest import REASONS, RPM, TPM

CALL = {"prompt": 140, "output": 60, "max_tokens": 120, "stream": 0.3, "callers": 20}
FLOWS = [{"tenant": f"t-{name}", "class": name, "weight": weight, **CALL}
         for name, weight in [("high", 4), ("normal", 2), ("low", 1)]]
UNWELL = "fleet_alone"


def load(fleet, seconds, warmup=0):
    return loadgen(fleet.port, FLOWS, seconds=seconds, warmup=warmup, rpm=RPM, tpm=TPM, retry="obey")


def one(fleet, words="hello"):
    return fleet.one(words)


def test_three_envoys_share_one_cap_by_weight_and_the_provider_never_refuses(fleet):
    summary = load(fleet, 40, warmup=10)
    total = summary["total"]
    print(summary, {reason: fleet.anomalies(reason) for reason in REASONS})
    assert total["provider_429"] == 0
    assert total["errors"] == 0
    assert summary["jain"] >= 0.97, summary
    assert max(summary["use_requests"], summary["use_llm_tokens"]) >= 0.85
    assert fleet.anomalies(UNWELL) == 0


def test_a_store_that_dies_and_comes_back_empty_blocks_nobody(fleet):
    assert one(fleet) == 200
    fleet.store.kill_redis()
    began = time.monotonic()
    assert [one(fleet, f"alone {number}") for number in range(12)] == [200] * 12
    # A timeout for each worker that had not noticed yet, and none after that.
    assert time.monotonic() - began < 20
    counted = fleet.anomalies(UNWELL)
    assert counted >= 12
    fleet.store.start_redis()
    # What was used meanwhile is posted: twelve calls, and none of them twice.
    wait_until(lambda: fleet.store.command("HEXISTS", "bp:{m-chat}:s", "s") == "1", 10, "recovery")
    wait_until(lambda: len(fleet.store.command("KEYS", "bp:{m-chat}:c:*").splitlines()) >= 24, 10, "posts")
    time.sleep(1)
    before = fleet.anomalies(UNWELL)
    assert [one(fleet, f"together {number}") for number in range(6)] == [200] * 6
    assert fleet.anomalies(UNWELL) == before


def test_a_store_that_hangs_delays_a_call_by_the_timeout_and_no_more(fleet):
    assert one(fleet) == 200
    fleet.store.freeze()
    waits = []
    for number in range(8):
        began = time.monotonic()
        assert one(fleet, f"hanging {number}") == 200
        waits.append(time.monotonic() - began)
    fleet.store.thaw()
    assert max(waits) < 4
    assert fleet.anomalies("fleet_unreachable") >= 1


def test_a_store_that_dies_under_load_breaks_no_cap_by_much_and_nothing_waits(fleet):
    def disturb():
        time.sleep(8)
        fleet.store.kill_redis()
        time.sleep(5)
        fleet.store.start_redis()

    trouble = threading.Thread(target=disturb)
    trouble.start()
    summary = load(fleet, 30)
    trouble.join()
    total = summary["total"]
    print(total, fleet.anomalies(UNWELL))
    assert total["errors"] == 0
    assert fleet.anomalies(UNWELL) > 0
    # Three Envoys that each begin with their part of what was last known to be left.
    assert total["provider_429"] <= total["admitted"] * 0.1


def test_foreign_data_is_counted_and_blocks_nobody(fleet):
    fleet.store.command("FLUSHALL")
    fleet.store.command("SET", "bp:{m-chat}:s", "not ours")
    assert [one(fleet, f"foreign {number}") for number in range(6)] == [200] * 6
    assert fleet.anomalies("fleet_foreign") >= 1
    fleet.store.command("DEL", "bp:{m-chat}:s")
    fleet.store.command("HSET", "bp:{m-chat}:s", "s", "garbage")
    assert [one(fleet, f"garbage {number}") for number in range(6)] == [200] * 6
    wait_until(lambda: fleet.store.command("HEXISTS", "bp:{m-chat}:s", "s") == "1", 10, "a new ledger")
    wait_until(fleet.is_calm, 10, "recovery")


def test_a_replica_that_dies_takes_nothing_with_it_for_long(fleet):
    assert one(fleet) == 200
    fleet.envoys[2].process.child.kill()
    statuses = [one(fleet, f"after {number}") for number in range(12)]
    assert set(statuses) <= {200, 503}
    summary = load(fleet, 12)
    assert summary["total"]["provider_429"] == 0
