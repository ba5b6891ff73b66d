"""Fixtures: three real Envoys behind a random balancer, one store, one provider that enforces the cap."""

import contextlib
import pathlib
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Provider, Store, call, wasm_filter  # noqa: E402
from harness.client import chat  # noqa: E402
from harness.envoy import address, cluster  # noqa: E402
from harness.processes import wait_until  # noqa: E402
from harness.store import installed  # noqa: E402

RPM, TPM, BURST = 3000, 300_000, 10
# Each test has a pool of its own: what an Envoy's own ledger remembers of an outage does not reach the next test.
POOLS = [f"m-{number}" for number in range(32)]
# Half a second: a loaded machine that runs everything at once may take that long, and what is proven here are the figures.
TIMEOUT_MS = 500
REASONS = ["fleet_alone", "fleet_unreachable", "fleet_refused", "fleet_foreign", "fleet_garbled"]


def pytest_collection_modifyitems(items):
    if not installed():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="redis-server and webdis are not installed"))


class Fleet:
    """The replicas, the way to a random one of them, and what they share."""

    def __init__(self, store, provider, envoys, balancer):
        self.store, self.provider, self.envoys, self.balancer = store, provider, envoys, balancer
        self.port = balancer.port
        self._pools = iter(POOLS)
        self._before = {}

    def begin(self):
        """A pool that nobody has used, a provider that has seen nothing, and Envoys in order."""
        self.store.revive()
        self.pool = next(self._pools)
        for envoy in self.envoys:
            if not envoy.process.alive():
                envoy.__enter__()
        wait_until(self.is_calm, 30, "a fleet in order")
        self.pool = next(self._pools)
        self.provider.reset()
        self._before = {reason: self.count(reason) for reason in REASONS}

    def key(self, part):
        """A key of the test's pool in the store."""
        return f"bp:{{{self.pool}}}:{part}"

    def one(self, words="hello", port=None, **more):
        return call(port or self.port, chat(words, model=self.pool, max_tokens=20), headers={"x-tenant": "someone"}, **more).status

    def some(self, count, port=None):
        return [self.one(f"{time.time()} {number}", port) for number in range(count)]

    def is_calm(self):
        """True when calls are decided by the store."""
        before = self.count("fleet_alone")
        time.sleep(0.3)
        return self.some(12) == [200] * 12 and self.count("fleet_alone") == before

    def let_leases_end(self):
        """None is asked for after two seconds without calls, and none lasts longer than a quarter."""
        time.sleep(2.5)

    def anomalies(self, reason):
        """How often the Envoys counted this cause since the test began."""
        return self.count(reason) - self._before.get(reason, 0)

    def count(self, reason, envoys=None):
        return sum(
            value for envoy in envoys or self.envoys if envoy.process.alive()
            for (name, labels), value in envoy.prometheus("backpressure_anomalies").items() if ("reason", reason) in labels)


def config(store):
    return {
        "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
        "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
        "default_class": "normal",
        "fleet": store.settings(timeout_ms=TIMEOUT_MS),
        "pools": [{
            "name": pool, "match": {"models": [pool]}, "limits": {"requests_per_minute": RPM, "tokens_per_minute": TPM},
            "burst_seconds": BURST} for pool in POOLS],
    }


def start(calls=None, to_store=None):
    """Everything of a fleet, one after another; ends when it is taken up again.

    With links the first Envoy runs at their far end: calls come by the one, its store is behind the other."""
    everywhere = "0.0.0.0" if calls else "127.0.0.1"
    with contextlib.ExitStack() as exits:
        store = exits.enter_context(Store(fronts=3, host=everywhere))
        provider = exits.enter_context(Provider(rpm=RPM, tpm=TPM, burst_seconds=BURST, bind=everywhere))
        ours = [wasm_filter(config(store))]
        ways = [cluster("store", front.port) for front in store.fronts]
        if to_store:
            ways[0] = cluster("store", store.fronts[0].port, host=to_store.here)
        envoys = [
            exits.enter_context(Envoy(provider.port, ours, workers=2, clusters=[way], link=link))
            for way, link in zip(ways, [calls, None, None])]
        replicas = cluster("replicas", envoys[0].port)
        replicas["lb_policy"] = "RANDOM"
        replicas["load_assignment"]["endpoints"] = [
            {"lb_endpoints": [{"endpoint": {"address": address(envoy.port, envoy.host)}} for envoy in envoys]}]
        balancer = Envoy(provider.port, [], workers=1, clusters=[replicas])
        balancer.listeners["ingress"].cluster = "replicas"
        yield Fleet(store, provider, envoys, exits.enter_context(balancer))


@pytest.fixture(scope="session")
def running():
    yield from start()


@pytest.fixture
def fleet(running):
    running.begin()
    return running
