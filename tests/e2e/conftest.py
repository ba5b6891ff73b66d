"""Fixtures: a mock provider and real Envoy with the compiled filter, ended and explained after each test."""

import contextlib
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Provider, module_path, wasm_filter  # noqa: E402

LONG = os.environ.get("E2E_LONG") == "1"


class Stack:
    """What a test started, newest last."""

    def __init__(self):
        self.exits = contextlib.ExitStack()
        self.started = []

    def start(self, thing):
        self.started.append(thing)
        return self.exits.enter_context(thing)

    def logs(self):
        for thing in self.started:
            yield f"{thing.process.directory.name}: {thing.process.log}", thing.process.text()[-6000:]


@pytest.fixture
def stack(request):
    stack = Stack()
    request.node.stack = stack
    with stack.exits:
        yield stack


@pytest.fixture
def provider(stack):
    """A provider without caps; `provider.configure(limits=...)` sets some."""
    return stack.start(Provider())


@pytest.fixture
def gate(stack, provider):
    """Starts Envoy with the filter: `gate(config)`; further arguments as of `Envoy` and `wasm_filter`."""

    def start(config, workers=4, before=(), after=(), module=None, as_struct=False, **options):
        hold_headers = not isinstance(config, dict) or config.get("hold_headers", True)
        ours = wasm_filter(config, module=module, hold_headers=hold_headers, as_struct=as_struct)
        upstream = options.pop("upstream_port", provider.port)
        return stack.start(Envoy(upstream, [*before, ours, *after], workers=workers, **options))

    return start


@pytest.fixture(scope="session")
def trap_module():
    """The filter built with the `trap-test` feature."""
    return module_path("backpressure-trap")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.when == "call" and report.failed and hasattr(item, "stack"):
        for name, text in item.stack.logs():
            report.sections.append((name, text))
    return report
