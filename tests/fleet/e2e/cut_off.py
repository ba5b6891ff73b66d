"""What `test_cut_off.py` runs in a network of its own, where no address is anybody else's and nothing outlives it."""

import contextlib
import threading
import time

import pytest

import conftest
from conftest import BURST, RPM
from harness import loadgen
from harness.network import Link, Network, prepare
from test_fleet import ALONE, FLOWS, load

# Seconds after the load began: that of the burst is over when the link is cut.
CUT, ALL_ALONE, MENDED, REJOINED, END = 3, 4.5, 8.5, 15, 21
ENVOYS, WORKERS = 3, 2


@pytest.fixture(scope="module")
def apart():
    """A fleet whose first Envoy has a network of its own, and the link from there to the store."""
    prepare()
    with Network() as network:
        calls, to_store = Link(network, "calls", 0), Link(network, "store", 1)
        with contextlib.contextmanager(conftest.start)(calls, to_store) as fleet:
            yield fleet, to_store


class Sample:
    """What Envoys and provider have counted by now. A call counts as decided when it was let through, denied or parked."""

    def __init__(self, fleet):
        self.time = time.monotonic()
        self.alone, self.decided, self.passed = [], [], []
        for envoy in fleet.envoys:
            counters = envoy.prometheus("backpressure_")
            self.alone.append(self._sum(counters, "backpressure_anomalies", "reason", {ALONE}))
            self.decided.append(self._sum(counters, "backpressure_requests", "decision", {"admitted", "denied", "parked"}))
            # Who was parked has passed a little later.
            self.passed.append(self._sum(counters, "backpressure_requests", "decision", {"admitted", "parked"}))
        self.refused = fleet.provider.total()["limited"]

    @staticmethod
    def _sum(counters, metric, label, values):
        return int(sum(count for (name, labels), count in counters.items() if name == metric and dict(labels)[label] in values))

    def since(self, before, what):
        return [now - then for now, then in zip(getattr(self, what), getattr(before, what))]


def test_an_envoy_that_is_cut_off_from_a_saturated_pool_goes_on_with_its_part_and_rejoins(apart):
    fleet, to_store = apart
    fleet.begin()
    began = time.monotonic()
    result = {}
    callers = threading.Thread(target=lambda: result.update(load(fleet, END, REJOINED)))
    callers.start()

    def at(second):
        time.sleep(max(0, began + second - time.monotonic()))
        return Sample(fleet)

    before = at(CUT)
    to_store.cut()
    alone, mended = at(ALL_ALONE), at(MENDED)
    lost = to_store.lost()
    to_store.mend()
    rejoined = at(REJOINED)
    callers.join()
    end, total = Sample(fleet), result["total"]
    cut, *others = mended.since(alone, "passed")
    # What passes in as much time when all is in order.
    usual = total["requests_per_minute"] / 60 * (mended.time - alone.time)
    decided, counted = mended.since(alone, "decided"), mended.since(alone, "alone")
    print(f"cut off: passed {cut}, at the others {others}, of {usual:.0f}; decided {decided}, alone {counted}; "
          f"{lost} packets lost; the provider refused "
          f"{[sample.refused for sample in [before, alone, mended, rejoined, end]]} of {total['admitted']}; in order again: {result}")

    assert lost > 0
    # Nobody was in the way of a call, and each that passed or did not was counted, but for those that a worker was at.
    assert total["errors"] == 0
    assert counted[0] >= decided[0] - WORKERS and decided[0] > 10
    # It had its part and no more. The others went on, by the store; a refusal of the provider holds them back for a second.
    assert 0 < cut <= usual / ENVOYS
    assert sum(others) >= usual / 2
    # On a busy machine some of their questions miss the timeout as well.
    assert sum(end.since(before, "alone")[1:]) <= sum(end.since(before, "decided")[1:]) / 5
    assert total["provider_429"] == end.refused <= total["admitted"] / 50
    # In order again.
    assert end.since(rejoined, "alone")[0] <= end.since(rejoined, "decided")[0] / 50
    assert end.refused == rejoined.refused
    assert result["jain"] >= 0.98
    assert max(result["use_requests"], result["use_llm_tokens"]) >= 0.95
    assert total["first_returns_kept"] >= 0.9 * total["first_returns"] > 0


def test_an_envoy_that_is_cut_off_from_a_full_pool_lets_its_part_through(apart):
    fleet, to_store = apart
    # By now each knows of the others.
    fleet.begin()
    cut_off = fleet.envoys[0]
    to_store.cut()
    before, began = fleet.provider.total(), time.monotonic()
    assert fleet.one(port=cut_off.port, address=cut_off.host) == 200
    # Small ones, so that requests bind: of LLM tokens a burst may use more than its estimates, and owes them then.
    small = [{**flow, "prompt": 5, "max_tokens": 10, "think_ms": 20} for flow in FLOWS]
    loadgen(cut_off.port, small, address=cut_off.host, seconds=2, retry="none", model=fleet.pool)
    took, after = time.monotonic() - began, fleet.provider.total()
    to_store.mend()
    passed = after["ok"] - before["ok"]
    part = RPM / 60 * (BURST + took) / ENVOYS
    print(f"cut off from a full pool: passed {passed} of {part:.0f} in {took:.1f} s")
    assert after["limited"] == 0
    assert part / 2 < passed <= part
