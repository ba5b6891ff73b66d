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

RPM, TPM, BURST = 600, 120_000, 10
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
        self._before = {}

    def begin(self):
        """A store and a provider that have seen nothing, and Envoys that know them."""
        self.store.revive()
        if self._before:
            # The Envoys' own ledgers remember the last test's outage for a minute.
            time.sleep(62)
        self.store.command("FLUSHALL")
        wait_until(self.is_calm, 30, "a fleet in order")
        self.store.command("FLUSHALL")
        self.provider.reset()
        self._before = {reason: self.count(reason) for reason in REASONS}

    def one(self, words):
        return call(self.port, chat(words, max_tokens=20), headers={"x-tenant": "someone"}).status

    def is_calm(self):
        """True when calls are decided by the store again."""
        before = self.count("fleet_alone")
        time.sleep(0.6)
        return [self.one(f"{time.time()} {number}") for number in range(6)] == [200] * 6 and self.count("fleet_alone") == before

    def anomalies(self, reason):
        """How often the Envoys counted this cause since the test began."""
        return self.count(reason) - self._before.get(reason, 0)

    def count(self, reason):
        return sum(
            value for envoy in self.envoys if envoy.process.alive()
            for (name, labels), value in envoy.prometheus("backpressure_anomalies").items() if ("reason", reason) in labels)


def config(store):
    return {
        "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
        "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
        "default_class": "normal",
        "fleet": store.settings(timeout_ms=1000),
        "pools": [{
            "name": "m-chat", "limits": {"requests_per_minute": RPM, "tokens_per_minute": TPM}, "burst_seconds": BURST,
            "output_reserve": "max_tokens", "max_wait_ms": 0}],
    }


def start():
    """Everything of a fleet, one after another; ends when it is taken up again."""
    with contextlib.ExitStack() as exits:
        store = exits.enter_context(Store())
        provider = exits.enter_context(Provider(rpm=RPM, tpm=TPM, burst_seconds=BURST))
        ours = [wasm_filter(config(store))]
        envoys = [
            exits.enter_context(Envoy(provider.port, ours, workers=2, clusters=[cluster("store", store.port)]))
            for _ in range(3)]
        replicas = cluster("replicas", envoys[0].port)
        replicas["lb_policy"] = "RANDOM"
        replicas["load_assignment"]["endpoints"] = [
            {"lb_endpoints": [{"endpoint": {"address": address(envoy.port)}} for envoy in envoys]}]
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
