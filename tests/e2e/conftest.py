"""Fixtures: a mock provider, and real Envoy with the compiled filter.

Compiling the module takes Envoy longer than most tests, so tests share one Envoy a worker count. Each has a listener
and a pool of its own in it, and sees only its own metrics.
"""

import contextlib
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Provider, module_path, wasm_filter  # noqa: E402

import gatekit  # noqa: E402

LONG = os.environ.get("E2E_LONG") == "1"


@pytest.fixture(scope="session")
def shared_provider():
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(shared_provider):
    """A provider without caps that has seen nothing; `provider.configure(limits=...)` sets some."""
    shared_provider.configure(limits={}, behave="")
    shared_provider.reset()
    return shared_provider


@pytest.fixture(scope="session")
def envoys(shared_provider):
    """Running Envoys by number of workers, started when first asked for."""
    running = {}
    # Envoy 1.36 crashes when the first wasm filter of its life comes after the start of the workers.
    first = [wasm_filter(gatekit.config({"requests_per_minute": 1}))]
    with contextlib.ExitStack() as exits:
        def get(workers):
            if workers not in running:
                running[workers] = exits.enter_context(Envoy(shared_provider.port, first, workers=workers))
            return running[workers]

        yield get


@pytest.fixture
def gate(request, provider, envoys):
    """Opens a gate: `gate(config)`; options as of `gatekit.Gate`."""
    opened = request.node.opened_gates = []
    with contextlib.ExitStack() as exits:
        def start(config, workers=4, envoy=None, **options):
            opened.append(exits.enter_context(gatekit.Gate(envoy or envoys(workers), config, **options)))
            return opened[-1]

        yield start


@pytest.fixture(scope="session")
def trap_envoys(shared_provider):
    """Envoys whose filter was built with the `trap-test` feature: not for other tests, their VMs die."""
    module = module_path("backpressure-trap")

    @contextlib.contextmanager
    def start(workers, **options):
        first = [wasm_filter(gatekit.config({"requests_per_minute": 1}), module=module)]
        with Envoy(shared_provider.port, first, workers=workers, **options) as envoy:
            yield envoy, module

    return start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.when == "call" and report.failed:
        for gate in getattr(item, "opened_gates", []):
            report.sections.append((f"Envoy of {gate.name}: {gate.envoy.process.log}", gate.log()[-6000:]))
    return report
