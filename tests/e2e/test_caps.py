"""The caps hold, exactly, whatever the number of workers."""

import pytest
from gatekit import FREE, config, send, statuses
from harness import call, parallel


def workers_used(gate):
    stats = gate.envoy.stats(f"{gate.port}.worker_")
    return sum(1 for name, count in stats.items() if name.endswith("downstream_cx_total") and count)


def test_100_parallel_calls_on_a_cap_of_10_admit_exactly_10(gate, provider):
    envoy = gate(config({"requests_per_minute": 10}), workers=4)
    replies = parallel(100, lambda _: send(envoy))
    assert statuses(replies) == {200: 10, 429: 90}
    assert provider.total()["requests"] == 10
    assert workers_used(envoy) == 4


@pytest.mark.parametrize("workers", [1, 4])
def test_a_cap_is_not_multiplied_by_the_number_of_workers(gate, provider, workers):
    envoy = gate(config({"requests_per_minute": 7}), workers=workers)
    assert statuses([send(envoy) for _ in range(40)]) == {200: 7, 429: 33}
    assert provider.total()["requests"] == 7


def test_the_request_limit_alone(gate, provider):
    envoy = gate(config({"requests_per_minute": 5}))
    assert statuses([send(envoy) for _ in range(12)]) == {200: 5, 429: 7}


def test_the_llm_token_limit_alone(gate, provider):
    # Each call takes 100 of output and under 10 of input: nine fit into 1000, ten do not.
    envoy = gate(config({"tokens_per_minute": 1000}))
    assert statuses([send(envoy, output=100) for _ in range(20)]) == {200: 9, 429: 11}
    assert provider.stats()["peak_window"]["llm_tokens"] <= 1000


def test_the_input_limit_alone(gate, provider):
    # 104 of input each, and output counts for nothing: nine fit.
    envoy = gate(config({"input_tokens_per_minute": 1000}))
    prompt = "rope " * 101
    assert statuses([send(envoy, prompt, output=500) for _ in range(20)]) == {200: 9, 429: 11}
    assert provider.stats()["peak_window"]["input"] <= 1000


def test_the_output_limit_alone(gate, provider):
    # 100 of output each, and input counts for nothing: ten fit.
    envoy = gate(config({"output_tokens_per_minute": 1000}))
    assert statuses([send(envoy, "rope " * 400, output=100) for _ in range(20)]) == {200: 10, 429: 10}
    assert provider.stats()["peak_window"]["output"] == 1000


def test_the_concurrency_limit_alone_and_its_slots_come_back(gate, provider):
    envoy = gate(config({"concurrent_requests": 3}))
    replies = parallel(20, lambda _: send(envoy, mock="delay_ms=2500"))
    assert statuses(replies) == {200: 3, 429: 17}
    assert provider.stats()["max_in_flight"] == 3
    assert {reply.headers["x-backpressure-reason"] for reply in replies if reply.status == 429} == {"concurrency"}
    assert statuses([send(envoy) for _ in range(10)]) == {200: 10}


@pytest.mark.parametrize("binding, amount, expected", [
    ("requests_per_minute", 4, 4),
    ("tokens_per_minute", 1000, 4),
    ("input_tokens_per_minute", 500, 4),
    ("output_tokens_per_minute", 420, 4),
])
def test_all_five_limits_together_the_tightest_binds(gate, provider, binding, amount, expected):
    # A call takes 104 of input and 100 of output.
    limits = {"requests_per_minute": 1000, "tokens_per_minute": FREE, "input_tokens_per_minute": FREE,
              "output_tokens_per_minute": FREE, "concurrent_requests": 50, binding: amount}
    envoy = gate(config(limits))
    replies = [send(envoy, "rope " * 101, output=100) for _ in range(10)]
    assert statuses(replies) == {200: expected, 429: 10 - expected}


def test_denied_calls_leave_nothing_taken(gate, provider):
    envoy = gate(config({"requests_per_minute": 10, "tokens_per_minute": 1000}))
    low, high = ({"x-tenant": f"t-{name}", "x-priority": name} for name in ("low", "high"))
    assert send(envoy, output=600, headers=low).status == 200
    # Too many LLM tokens for now: denied, and neither a request nor an LLM token is taken.
    denied = parallel(30, lambda _: send(envoy, output=600, headers=low))
    assert statuses(denied) == {429: 30}
    assert {reply.headers["x-ratelimit-remaining-requests"] for reply in denied} == {"9"}
    assert {350 <= int(reply.headers["x-ratelimit-remaining-tokens"]) < 400 for reply in denied} == {True}
    # The denied ones wait, but what they cannot use yet a small call of somebody with a better claim can.
    assert statuses([send(envoy, output=10, headers=high) for _ in range(9)]) == {200: 9}
    assert provider.total()["requests"] == 10


def test_parallel_calls_of_mixed_size_never_overshoot(gate, provider):
    envoy = gate(config({"requests_per_minute": 40, "tokens_per_minute": 3000}))
    parallel(100, lambda index: send(envoy, f"call {index}", output=20 + 13 * (index % 17)))
    peaks = provider.stats()["peak_window"]
    assert peaks["requests"] <= 40 and peaks["llm_tokens"] <= 3000
    assert peaks["llm_tokens"] > 1500


def test_a_call_of_the_whole_limit_passes_on_an_idle_pool_and_a_larger_output_reserve_is_clamped(gate, provider):
    envoy = gate(config({"tokens_per_minute": 1000}))
    assert send(envoy, max_tokens=50_000, mock="output=900").status == 200
    assert send(envoy, output=200).status == 429


def test_calls_outside_the_generation_endpoints_pass_and_are_not_charged(gate, provider):
    envoy = gate(config({"requests_per_minute": 1}))
    paths = [("GET", "/v1/models", None), ("POST", "/v1/messages/count_tokens", {"messages": []}), ("GET", "/healthz", None),
             ("POST", "/v1/moderations", {"input": "x"}), ("HEAD", "/v1/chat/completions", None)]
    for method, path, body in paths * 2:
        assert call(envoy.port, body, path=path, method=method).status == 200
    assert statuses([send(envoy) for _ in range(3)]) == {200: 1, 429: 2}


def test_two_pools_do_not_share_a_cap(gate, provider):
    both = config({"requests_per_minute": 2})
    pool = both["pools"][0]
    both["pools"] = [{**pool, "name": "small", "match": {"models": ["m-small*"]}}, pool]
    envoy = gate(both)
    assert statuses([send(envoy, model="m-small-1") for _ in range(4)]) == {200: 2, 429: 2}
    assert statuses([send(envoy) for _ in range(4)]) == {200: 2, 429: 2}
