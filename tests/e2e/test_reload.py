"""Configurations change and VMs die; the ledger stays."""

import threading
import time

from gatekit import config, eventually, send, statuses
from harness import parallel
from test_streams import open_stream


class Traffic:
    """Callers that send one call after another until stopped."""

    def __init__(self, envoy, callers=6):
        self.envoy, self.replies, self.failures, self.over = envoy, [], [], threading.Event()
        self.threads = [threading.Thread(target=self.work) for _ in range(callers)]

    def work(self):
        while not self.over.is_set():
            try:
                self.replies.append(send(self.envoy))
            except OSError as error:
                self.failures.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def test_a_reload_keeps_the_counters_and_new_limits_apply_at_once(gate, provider):
    envoy = gate(config({"requests_per_minute": 10}))
    assert statuses([send(envoy) for _ in range(6)]) == {200: 6}
    assert envoy.reload(config({"requests_per_minute": 10}, default_output_tokens=7))
    assert statuses([send(envoy) for _ in range(4)]) == {200: 4}
    assert envoy.reload(config({"requests_per_minute": 15}))
    assert statuses([send(envoy) for _ in range(8)]) == {200: 5, 429: 3}
    assert envoy.reload(config({"requests_per_minute": 3}))
    assert statuses([send(envoy) for _ in range(5)]) == {429: 5}


def test_a_wrong_configuration_is_refused_with_its_place_and_the_old_one_stays(gate, provider):
    envoy = gate(config({"requests_per_minute": 3}))
    assert send(envoy).status == 200
    for wrong, place in [
        (config({"requests_per_minute": 0}), "/pools/0/limits/requests_per_minute: must be at least 1, got 0"),
        (config({"requests_per_minute": 3}, top={"nonsense": 1}), "/nonsense"),
        (config({}), "/pools/0/limits"),
        ("{not json", ""),
    ]:
        assert not envoy.reload(wrong)
        assert place in envoy.log()
    assert statuses([send(envoy) for _ in range(5)]) == {200: 2, 429: 3}


def test_json_text_and_struct_mean_the_same(gate, provider):
    envoy = gate(config({"requests_per_minute": 4, "tokens_per_minute": 5000}), as_struct=True)
    assert statuses([send(envoy, output=10) for _ in range(7)]) == {200: 4, 429: 3}


def test_reloads_in_the_middle_of_traffic_lose_no_call_and_no_count(gate, provider):
    envoy = gate(config({"requests_per_minute": 60}))
    with Traffic(envoy) as traffic:
        for round_ in range(6):
            assert envoy.reload(config({"requests_per_minute": 60}, default_output_tokens=100 + round_))
    assert not traffic.failures
    counts = statuses(traffic.replies)
    assert set(counts) == {200, 429} and counts[200] == 60
    assert provider.total()["requests"] == 60


def test_a_call_in_flight_over_a_reload_gives_its_slot_back(gate, provider):
    envoy = gate(config({"concurrent_requests": 1}))
    with open_stream(envoy, mock="output=40,chunks=8,chunk_ms=250") as raw:
        raw.until(b"chat.completion.chunk", 2)
        assert envoy.reload(config({"concurrent_requests": 1}, default_output_tokens=9))
        assert send(envoy).status == 429
    eventually(lambda: send(envoy).status == 200, what="the slot")


def trap(envoy):
    return send(envoy, headers={"x-backpressure-test-trap": "1"})


def test_a_trapped_vm_heals_and_the_ledger_is_not_lost(gate, provider, trap_envoys):
    with trap_envoys(workers=1) as (running, module):
        envoy = gate(config({"requests_per_minute": 40}), envoy=running, module=module)
        assert statuses([send(envoy) for _ in range(15)]) == {200: 15}
        assert trap(envoy).status == 503
        eventually(lambda: send(envoy).status == 200, 15, "the new VM")
        # That was one more.
        assert statuses([send(envoy) for _ in range(40)]) == {200: 24, 429: 16}
        assert provider.total()["ok"] == 40
        assert running.stat("wasm.backpressure.vm_reload_success") >= 1


def test_traps_in_the_middle_of_traffic_heal_on_every_worker(gate, provider, trap_envoys):
    with trap_envoys(workers=4) as (running, module):
        envoy = gate(config({"requests_per_minute": 400}), envoy=running, module=module)
        with Traffic(envoy, callers=4) as traffic:
            for _ in range(3):
                parallel(8, lambda _: trap(envoy).status)
                time.sleep(0.3)
            eventually(lambda: 503 not in statuses([send(envoy) for _ in range(20)]), 30, "all workers healed")
        assert set(statuses(traffic.replies)) <= {200, 429, 503}
        rest = parallel(50, lambda _: [send(envoy) for _ in range(12)])
        assert {reply.status for replies in rest for reply in replies} <= {200, 429}
        # Those whose VM died after their admission never reached the provider.
        assert 360 <= provider.total()["ok"] <= 400
        assert statuses(parallel(20, lambda _: send(envoy))) == {429: 20}
