"""Envoy's log: a line for each change of state, whatever the number of workers, and none for a call."""

import re

import pytest
from busy import CONFIG, Busy
from harness import Listener, wasm_filter
from harness.processes import wait_until


@pytest.fixture(scope="module")
def busy():
    with Busy() as busy:
        yield busy


def lines(busy, pattern):
    return [line for line in busy.envoy.log().splitlines() if re.search(pattern, line)]


def test_a_pause_and_its_end_are_one_line_each(busy):
    wait_until(lambda: lines(busy, "pool troubled: paused by the provider"), 30, "pause")
    busy.over.set()
    wait_until(lambda: lines(busy, "pool troubled: whole limits again"), 60, "end of the pause")
    seen = [re.search("pool troubled: (paused|runs|whole)", line).group(1) for line in lines(busy, "pool troubled: ")]
    assert all(first != second for first, second in zip(seen, seen[1:]))


def test_a_reload_is_one_line(busy):
    before = len(lines(busy, "backpressure: configured"))
    assert before == 1
    assert busy.envoy.put("ingress", Listener([wasm_filter({**CONFIG, "cas_attempts": 9})], port=busy.envoy.port))
    wait_until(lambda: len(lines(busy, "backpressure: configured")) > before, 20, "line of the reload")
    assert len(lines(busy, "backpressure: configured")) == before + 1


def test_calls_are_not_logged(busy):
    def admitted():
        return sum(value for (name, labels), value in busy.envoy.prometheus("backpressure_requests").items()
                   if ("decision", "admitted") in labels)

    passed = admitted()
    # The load may have ended by now.
    assert {busy.call("odd") for _ in range(25)} == {200}
    wait_until(lambda: admitted() >= passed + 25, 30, "calls")
    ours = lines(busy, "backpressure: ")
    known = r"configured, pools|pool \w+: (paused|runs|whole)|held back"
    assert [line for line in ours if not re.search(known, line)] == []
