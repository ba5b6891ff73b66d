"""Faults under load, on real Envoy: `make faults`. Not collected by `make test-e2e`; about three minutes.

After each fault: no call was refused by the gate, nobody is in flight or parked, what is counted is given back within
the reservation time or leaves the window, and Envoy has not grown.
"""

import contextlib
import subprocess
import threading
import time

import pytest
from chaos import Chaos, cancelling_clients
from gatekit import FREE, Gate, config, eventually, send
from harness import Envoy, module_path, wasm_filter
from harness.provider import loadgen_command

TTL = 10
LIMITS = {"requests_per_minute": 1_000_000, "tokens_per_minute": FREE, "concurrent_requests": 100_000}
CALL = {"prompt": 60, "output": 30, "max_tokens": 60, "think_ms": 20}
FLOWS = [
    {"tenant": "acme", "class": "high", "callers": 10, "stream": 0.5, **CALL},
    {"tenant": "beta", "class": "low", "callers": 10, "stream": 0.2, **CALL},
    {"tenant": "other", "callers": 6, "api": "messages", "stream": 0.5, **CALL},
    {"tenant": "more", "callers": 4, "mock": "usage=omit;chunks=3;chunk_ms=30", "stream": 1, **CALL},
]


def free_config(**pool):
    """Nothing is ever used up, so whoever is refused is refused by a fault."""
    return config(LIMITS, top={"reservation_ttl_seconds": TTL}, learn={"headers": True, "pause_on_429": False, "adapt": False}, **pool)


class Load:
    """A load run in the background; `summary` after the block."""

    def __init__(self, port, seconds, flows=None):
        command = loadgen_command(port, flows or FLOWS, seconds=seconds, retry="none")
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.summary = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        import json
        out, _ = self.child.communicate(timeout=120)
        self.summary = json.loads(out)["total"]


def every(seconds, until, action):
    """Does `action(round)` every so many seconds until the time is over."""
    end, number = time.monotonic() + until, 0
    while time.monotonic() < end:
        action(number)
        number += 1
        time.sleep(seconds)


def all_given_back(gate, seconds=TTL + 4):
    eventually(lambda: gate.metric("in_flight") == 0 and gate.metric("parked") == 0, seconds, "nobody in flight or parked")


def whole_again(gate):
    """After a minute every unit of every limit is there again: nothing leaked, no debt stayed."""
    limits = dict(requests=LIMITS["requests_per_minute"], tokens=FREE, concurrent=100_000)
    found = {dict(labels)["resource"]: value for labels, value in gate.samples("available").items()}
    assert len(found) == 3
    return sorted(found.values()) == sorted(limits.values())


@pytest.fixture
def upstream(shared_provider):
    shared_provider.configure(limits={}, behave="")
    shared_provider.reset()
    with Chaos(shared_provider.port) as chaos:
        yield chaos


@contextlib.contextmanager
def running(port, workers=2, module=None):
    first = [wasm_filter(config({"requests_per_minute": 1}), module=module)]
    with Envoy(port, first, workers=workers) as envoy:
        yield envoy


def grown(envoy, before):
    """Megabytes more than before."""
    return (envoy.process.resident_bytes() - before) / 1e6


def test_a_vm_killed_every_second(upstream):
    module = module_path("backpressure-trap")
    with running(upstream.port, module=module) as envoy, Gate(envoy, free_config(), module=module) as gate:
        one_slot = config({**LIMITS, "concurrent_requests": 1}, top={"reservation_ttl_seconds": TTL}, max_wait_ms=30_000)
        with Gate(envoy, one_slot, module=module) as parking:
            threads = [threading.Thread(target=quiet, args=(parking,)) for _ in range(20)]
            for thread in threads:
                thread.start()
            eventually(lambda: parking.metric("parked") > 0, 10, "parked calls")
            with Load(gate.port, 16) as load:
                every(1, 14, lambda _: quiet(gate, headers={"x-backpressure-test-trap": "1"}))
            assert envoy.stat("wasm.backpressure.vm_reload_success") >= 5
            assert load.summary["gate_denied"] == 0
            assert load.summary["admitted"] > 100
            eventually(lambda: send(gate).status == 200, 15, "healed")
            for _ in range(30):
                assert send(gate).status in (200, 503)
            all_given_back(gate, TTL + 8)
            # What dead VMs had parked is forgotten, though nobody said that it left.
            eventually(lambda: parking.metric("parked") == 0 and parking.metric("in_flight") == 0, TTL + 40, "nobody parked")
            before = envoy.process.resident_bytes()
            every(1, 6, lambda _: quiet(gate, headers={"x-backpressure-test-trap": "1"}))
            assert grown(envoy, before) < 120, "a dead VM stays"
            for thread in threads:
                thread.join(40)


def quiet(gate, **options):
    """One call, whatever becomes of it."""
    with contextlib.suppress(OSError):
        return send(gate, **options)
    return None


@pytest.mark.parametrize("fault", ["down", "slow", "reset", "garbage"])
def test_an_upstream_that_is(upstream, fault):
    with running(upstream.port) as envoy, Gate(envoy, free_config()) as gate:
        with Load(gate.port, 12) as load:
            every(1, 10, lambda number: setattr(upstream, "mode", "pass" if number % 3 == 2 else fault))
            upstream.mode = "pass"
        assert load.summary["gate_denied"] == 0, load.summary
        assert load.summary["admitted"] > 20
        all_given_back(gate)
        assert send(gate).status == 200
        assert gate.metric("requests", decision="failed_open") == 0
        before = envoy.process.resident_bytes()
        with Load(gate.port, 6):
            upstream.mode = fault
        upstream.mode = "pass"
        all_given_back(gate)
        assert grown(envoy, before) < 30
        eventually(lambda: whole_again(gate), 75, "all of every limit")


def test_a_thousand_clients_cancelling_at_random(upstream):
    with running(upstream.port) as envoy, Gate(envoy, free_config()) as gate:
        seen = cancelling_clients(gate.port, 1_000, 6)
        assert set(seen) <= {"200", "nothing", "closed"} and seen["200"] > 100, seen
        all_given_back(gate)
        before = envoy.process.resident_bytes()
        for seed in (2, 3):
            cancelling_clients(gate.port, 1_000, 6, seed)
            all_given_back(gate)
        assert grown(envoy, before) < 40
        eventually(lambda: whole_again(gate), 75, "all of every limit")


def test_a_full_disk_for_the_access_log(upstream):
    with running(upstream.port) as envoy:
        gate = Gate(envoy, free_config())
        gate.listener.access_log = gate.access_log = "/dev/full"
        with gate:
            with Load(gate.port, 8) as load:
                pass
            assert (load.summary["gate_denied"], load.summary["errors"]) == (0, 0)
            assert envoy.stat("filesystem.write_failed") > 0
            all_given_back(gate)


def test_a_configuration_that_changes_every_two_seconds(upstream):
    with running(upstream.port) as envoy, Gate(envoy, free_config()) as gate:
        before = None

        def change(number):
            nonlocal before
            assert gate.reload(free_config(default_output_tokens=100 + number, max_wait_ms=number % 2 * 500))
            if number == 3:
                before = envoy.process.resident_bytes()

        with Load(gate.port, 24) as load:
            every(2, 20, change)
        # Connections of a listener that was replaced are closed after the drain time; their calls fail on the way.
        assert load.summary["gate_denied"] == 0
        assert load.summary["errors"] <= load.summary["calls"] // 50, load.summary
        all_given_back(gate)
        assert grown(envoy, before) < 60
        eventually(lambda: whole_again(gate), 75, "all of every limit")
