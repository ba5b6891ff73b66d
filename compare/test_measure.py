"""The arithmetic of the comparison."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from loads import LOADS, Caller, Job
from measure import figures, jain, quantile


def served(number, name, born, admitted, cost=100):
    return Job(number, name, cost, 0, 0, 0.4, born=born, admitted=admitted, tries=1)


def test_jain_is_one_for_equal_shares_and_one_of_n_for_a_single_winner():
    assert jain([0.3, 0.3, 0.3]) == pytest.approx(1.0)
    assert jain([1.0, 0.0]) == pytest.approx(0.5)


def test_quantiles_count_those_who_still_wait():
    assert quantile([(float(n), True) for n in range(1, 101)], 0.5) == (50.0, True)
    assert quantile([(1.0, True), (9.0, False), (9.0, False)], 0.5) == (9.0, False)


def test_what_a_class_does_not_want_is_shared_by_the_others():
    entitled = LOADS["below"].entitled()
    assert sum(entitled.values()) == pytest.approx(1.0)
    assert entitled["high"] == pytest.approx(LOADS["below"].wanted("high"))
    assert entitled["normal"] == pytest.approx(2 * entitled["low"])


@pytest.mark.parametrize("name", LOADS)
def test_every_load_offers_two_and_a_half_times_the_cap(name):
    assert 2.3 <= LOADS[name].offered() <= 2.6


def test_the_same_seed_asks_the_same_calls_and_another_seed_others():
    def calls(seed):
        caller = Caller(LOADS["tokens"], "high", 3, seed)
        return [(job.prompt, job.output, job.service) for job in (caller.next() for _ in range(5))]

    assert calls(1) == calls(1) != calls(2)


def test_shares_are_of_what_others_leave_and_only_after_the_warm_up():
    load = LOADS["halved"]
    jobs = [served(number, name, 5.0, at, cost=1000) for number, (name, at) in enumerate(
        [("high", 20.0)] * 4 + [("normal", 30.0)] * 2 + [("low", 40.0), ("low", 3.0)])]
    out = figures(load, jobs, 10.0, 70.0, provider=2, others=load.tpm - 14_000)
    assert out["jain"] == pytest.approx(1.0) and out["use"] == pytest.approx(0.5)
    assert out["classes"]["high"]["of_entitled"] == pytest.approx(0.5)
    assert out["provider_429s"] == 2
