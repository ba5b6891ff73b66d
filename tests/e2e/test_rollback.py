"""Configurations that are taken back while they still live, and listeners that share a pool."""

import contextlib
import http.client
import json

import pytest

from gatekit import Gate, config, eventually, send, statuses
from harness import Envoy, wasm_filter
from harness.client import chat


def limits(requests):
    return config({"requests_per_minute": requests})


def in_force(envoy):
    return int(send(envoy).headers["x-ratelimit-limit-requests"])


@pytest.fixture(scope="module")
def draining(shared_provider):
    """Old configurations live on for the whole test."""
    with Envoy(shared_provider.port, [wasm_filter(limits(1))], workers=2, drain_seconds=600) as envoy:
        yield envoy


class Kept:
    """A caller that keeps its connection, and makes no other when Envoy closes it."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.connection.connect()
        self.connection.auto_open = 0

    def send(self):
        self.connection.request("POST", "/v1/chat/completions", body=json.dumps(chat("hello")), headers={"host": "llm.test", "content-type": "application/json"})
        reply = self.connection.getresponse()
        reply.read()
        return reply.status

    def is_open(self):
        """False once Envoy has said that it closes the connection, which a draining listener may do with any answer."""
        return self.connection.sock is not None


@contextlib.contextmanager
def kept(envoy):
    caller = Kept(envoy.port)
    try:
        yield caller
    finally:
        caller.connection.close()


def test_a_configuration_that_is_taken_back_is_without_effect_from_the_next_call(gate, provider, draining):
    envoy = gate(limits(500), envoy=draining)
    assert statuses([send(envoy) for _ in range(5)]) == {200: 5}
    assert envoy.reload(limits(1))
    assert statuses([send(envoy) for _ in range(4)]) == {429: 4}
    assert envoy.reload(limits(500))
    assert statuses([send(envoy) for _ in range(8)]) == {200: 8}


def test_configurations_that_come_again_and_again_are_each_in_force(gate, provider, draining):
    envoy = gate(limits(100), envoy=draining)
    for requests in [100, 200, 100, 300, 200, 100, 300]:
        assert envoy.reload(limits(requests))
        assert [in_force(envoy) for _ in range(3)] == [requests] * 3


def test_calls_of_connections_from_before_do_not_bring_a_configuration_back(gate, provider, draining):
    envoy = gate(limits(500), envoy=draining)
    with contextlib.ExitStack() as callers:
        before = [callers.enter_context(kept(envoy)) for _ in range(8)]
        assert {one.send() for one in before} == {200}
        assert envoy.reload(limits(1))
        assert {status for one in before for status in (one.send(), send(envoy).status)} == {429}
        assert envoy.reload(limits(500))
        assert send(envoy).status == 200
        assert {one.send() for one in before if one.is_open()} <= {200}
        assert send(envoy).status == 200


def test_the_gauges_of_a_configuration_that_is_taken_back_go_on(gate, provider, draining):
    envoy = gate(limits(100), envoy=draining)
    for requests in [200, 100]:
        assert send(envoy).status == 200
        assert envoy.reload(limits(requests))
    # Of 100, three are used: an old number would be that of 200.
    assert send(envoy).status == 200
    eventually(lambda: 90 <= envoy.metric("available", resource="requests") <= 98, what="the gauge")


def test_a_listener_that_is_removed_leaves_its_limits_to_nobody(gate, provider, envoys):
    first = gate(limits(100), workers=2)
    second = Gate(first.envoy, limits(300))
    # The same pool behind another listener.
    second.pool = first.pool
    second.listener.filters = second._filters(limits(300))
    with second:
        assert in_force(second) == 300
    eventually(lambda: in_force(first) == 100, 10, "its own limits")


@pytest.mark.parametrize("taken_back", [False, True])
def test_a_vm_that_died_goes_by_the_configuration_that_counted_whichever_it_loads_last(gate, provider, trap_envoys, taken_back):
    with trap_envoys(workers=1, drain_seconds=600) as (running, module), contextlib.ExitStack() as callers:
        envoy = gate(limits(500), envoy=running, module=module)
        for requests in [300, 500] if taken_back else [300]:
            # Envoy refuses calls of a dead VM for a while after each load, and closes their connections.
            silent = [callers.enter_context(kept(envoy)) for _ in range(80)]
            assert {one.send() for one in silent} == {200}
            assert envoy.reload(limits(requests))
        counts = requests
        assert send(envoy).status == 200
        assert send(envoy, headers={"x-backpressure-test-trap": "1"}).status == 503
        eventually(lambda: send(envoy).status == 200, 15, "the new VM")
        assert in_force(envoy) == counts
        # Only now comes the other configuration to the new VM.
        speaking = iter(silent)
        eventually(lambda: next(speaking).send() == 200, 15, "a call by a connection from before")
        assert running.stat("wasm.backpressure.vm_reload_success") == 2
        assert [in_force(envoy) for _ in range(2)] == [counts] * 2
