"""The official OpenAI and Anthropic clients, with their default settings."""

import time

import anthropic
import openai
import pytest
from gatekit import config, send

MESSAGES = [{"role": "user", "content": "tie a knot"}]


@pytest.fixture
def paced(gate):
    """A gate that lets one call pass every three seconds, the first of which was just used."""
    envoy = gate(config({"requests_per_minute": 20}, burst_seconds=1))
    assert send(envoy, "something else").status == 200
    return envoy


def openai_client(envoy, **options):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{envoy.port}/v1", api_key="sk-test", **options)


def anthropic_client(envoy, **options):
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{envoy.port}", api_key="sk-test", **options)


def check_one_return(envoy, provider, started):
    assert 1 <= time.monotonic() - started <= 12
    assert envoy.metric("requests", decision="denied") == 1
    assert provider.total()["requests"] == 2


def test_openai_is_denied_once_comes_back_when_told_and_succeeds(paced, provider):
    started = time.monotonic()
    answer = openai_client(paced).chat.completions.create(model="m-chat", messages=MESSAGES)
    assert answer.choices[0].message.content and answer.usage.total_tokens > 0
    check_one_return(paced, provider, started)


def test_openai_streams_come_back_too(paced, provider):
    started = time.monotonic()
    stream = openai_client(paced).chat.completions.create(model="m-chat", messages=MESSAGES, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    check_one_return(paced, provider, started)


def test_openai_responses_come_back_too(paced, provider):
    started = time.monotonic()
    assert openai_client(paced).responses.create(model="m-chat", input="tie a knot").output_text
    check_one_return(paced, provider, started)


def test_anthropic_is_denied_once_comes_back_when_told_and_succeeds(paced, provider):
    started = time.monotonic()
    answer = anthropic_client(paced).messages.create(model="m-chat", max_tokens=100, messages=MESSAGES)
    assert answer.content[0].text and answer.usage.output_tokens > 0
    check_one_return(paced, provider, started)


def test_anthropic_streams_come_back_too(paced, provider):
    started = time.monotonic()
    with anthropic_client(paced).messages.stream(model="m-chat", max_tokens=100, messages=MESSAGES) as stream:
        assert "".join(stream.text_stream)
    check_one_return(paced, provider, started)


@pytest.fixture
def used_up(gate):
    envoy = gate(config({"requests_per_minute": 1, "tokens_per_minute": 1000}))
    assert send(envoy).status == 200
    return envoy


def test_openai_raises_its_own_errors_with_our_message(used_up):
    client = openai_client(used_up, max_retries=0)
    with pytest.raises(openai.RateLimitError) as denied:
        client.chat.completions.create(model="m-chat", messages=MESSAGES)
    assert "m-chat" in str(denied.value) and denied.value.code == "rate_limit_exceeded"
    huge = [{"role": "user", "content": "rope " * 3000}]
    with pytest.raises(openai.APIStatusError) as too_large:
        openai_client(used_up).chat.completions.create(model="m-chat", messages=huge)
    assert too_large.value.status_code == 413 and "1000" in str(too_large.value).replace(",", "")


def test_anthropic_raises_its_own_errors_with_our_message(used_up):
    client = anthropic_client(used_up, max_retries=0)
    with pytest.raises(anthropic.RateLimitError) as denied:
        client.messages.create(model="m-chat", max_tokens=5, messages=MESSAGES)
    assert "m-chat" in str(denied.value)
    huge = [{"role": "user", "content": "rope " * 3000}]
    with pytest.raises(anthropic.APIStatusError) as too_large:
        anthropic_client(used_up).messages.create(model="m-chat", max_tokens=5, messages=huge)
    assert too_large.value.status_code == 413 and "1000" in str(too_large.value).replace(",", "")
