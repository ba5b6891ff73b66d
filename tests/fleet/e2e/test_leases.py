"""Leases on real Envoys: a slow store is not on the way of calls, and what a killed Envoy held comes back."""

import asyncio
import contextlib
import statistics
import threading
import time

import pytest

from harness import Envoy, Provider, Store, call, wasm_filter
from harness.client import chat
from harness.envoy import cluster
from harness.processes import free_port, wait_until

RPM, TPM, SLOTS = 6_000, 6_000_000, 2_000
# What a call pays that waits for the store, at least.
SLOW = 0.03


class SlowFront:
    """Forwards connections to a port; what comes back is `SLOW` seconds late."""

    def __init__(self, port):
        self.port, self._target = free_port(), port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        started = asyncio.start_server(self._serve, "127.0.0.1", self.port)
        asyncio.run_coroutine_threadsafe(started, self._loop).result(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._copy(reader, back, 0), self._copy(there, writer, SLOW), return_exceptions=True)

    async def _copy(self, source, sink, late):
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                await asyncio.sleep(late)
                sink.write(data)
                await sink.drain()
        sink.close()


@pytest.fixture
def pair():
    """Two Envoys of one worker each, before a store that answers late."""
    with contextlib.ExitStack() as exits:
        store = exits.enter_context(Store())
        front = exits.enter_context(SlowFront(store.port))
        provider = exits.enter_context(Provider(fast=True))
        config = {
            "fleet": store.settings(timeout_ms=1000),
            "pools": [{"name": "m-chat", "burst_seconds": 60, "output_reserve": "max_tokens", "limits": {
                "requests_per_minute": RPM, "tokens_per_minute": TPM, "concurrent_requests": SLOTS}}]}
        yield [exits.enter_context(Envoy(
            provider.port, [wasm_filter(config)], workers=1, clusters=[cluster("store", front.port)])) for _ in range(2)]


def timed(envoy, number):
    # Not above the limit's own pace, which is a call each hundredth of a second.
    time.sleep(0.01)
    began = time.monotonic()
    assert call(envoy.port, chat(f"number {number}", max_tokens=20)).status == 200
    return time.monotonic() - began


def available(envoy, resource):
    """What the Envoy was last told to be left."""
    return next(value for (_, labels), value in envoy.prometheus("backpressure_available").items() if ("resource", resource) in labels)


def test_a_slow_store_delays_no_call_of_a_pool_that_nobody_waits_for(pair):
    waits = {envoy: [timed(envoy, number) for number in range(300)] for envoy in pair}
    for envoy, taken in waits.items():
        first, later = taken[0], sorted(taken[30:])
        print(f"first {first:.4f} s, later p50 {statistics.median(later):.4f} p90 {later[-27]:.4f} most {later[-1]:.4f}")
        assert first > SLOW, "the first one asks"
        assert statistics.median(later) < SLOW / 2
        assert sum(wait > SLOW for wait in later) < len(later) / 10
        assert sum(envoy.prometheus("backpressure_anomalies").values()) == 0
    # Nothing is held once nobody calls, and each call counts once.
    for envoy in pair:
        wait_until(lambda envoy=envoy: available(envoy, "requests") == RPM - 600, 20, f"{available(envoy, 'requests')} of {RPM}")
        assert available(envoy, "concurrency") == SLOTS


def test_what_a_killed_envoy_had_borrowed_counts_as_used_and_then_comes_back(pair):
    dying, other = pair
    for number in range(100):
        timed(dying, number)
    # Its last calls are settled by now, and it still holds a lease.
    time.sleep(0.1)
    dying.process.child.kill()
    timed(other, 0)
    wait_until(lambda: available(other, "concurrency") == SLOTS, 10, "slots of a dead Envoy")
    time.sleep(3)
    left = available(other, "requests")
    assert RPM - 101 - RPM / 25 <= left <= RPM - 100
    wait_until(lambda: available(other, "requests") == RPM, 70, "the end of a minute")
