"""The status page as programs and people meet it: real Envoy under load, headless Chromium, axe-core."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
from busy import CONFIG, Busy
from conftest import ROOT
from harness.paths import RUN_DIR
from harness.processes import wait_until

VIEWS = ["phone-light", "phone-dark", "desktop-light", "desktop-dark"]


@pytest.fixture(scope="module")
def busy():
    with Busy() as busy:
        wait_until(lambda: busy.status()["pools"][0]["booked"] > 3 and busy.status()["denials"], 60, "waiting calls")
        yield busy


def ask(busy, method="GET", path=CONFIG["status_path"], body=None, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{busy.envoy.port}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_json_tells_what_the_gate_knows(busy):
    status = busy.status()
    pool = status["pools"][0]
    assert status["mode"] == "enforce"
    assert [limit["resource"] for limit in pool["limits"]] == ["requests", "tokens", "concurrency"]
    assert all(0 <= limit["remaining"] <= limit["at_once"] <= limit["limit"] for limit in pool["limits"])
    assert {flow["tenant"] for flow in pool["flows"]} <= {"acme", "beta", "other"}
    assert sum(flow["entitled_permille"] for flow in pool["flows"]) <= 1000
    waits = [entry["in_ms"] for entry in pool["returns"]]
    assert waits == sorted(waits)
    assert 0 < len(waits) <= 50
    assert {denial["reason"] for denial in status["denials"]} <= {
        "exhausted", "over_share", "concurrency", "upstream_paused", "exceeds_limit"}


def test_the_shares_are_those_of_the_weights(busy):
    def entitled():
        flows = {(flow["class"], flow["tenant"]): flow["entitled_permille"] for flow in busy.status()["pools"][0]["flows"]}
        return flows if len(flows) == 3 else None

    flows = wait_until(entitled, 30, "three waiting flows")
    assert flows["high", "acme"] == pytest.approx(800, abs=5)
    assert flows["low", "beta"] == pytest.approx(100, abs=5)
    assert flows["low", "other"] == pytest.approx(100, abs=5)


def test_a_pause_is_shown(busy):
    def paused():
        busy.call("troubled", "status=429,retry_after=5")
        return busy.status()["pools"][1]["paused_ms"]

    assert 0 < wait_until(paused, 20, "pause") <= 7000


def test_no_credential_is_ever_shown(busy):
    secret = "sk-a-very-secret-key-0123456789"
    body = json.dumps({"model": "m-chat", "messages": [{"role": "user", "content": "hello"}]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{busy.envoy.port}/v1/chat/completions", body, {"authorization": f"Bearer {secret}", "x-tenant": secret})
    try:
        urllib.request.urlopen(request, timeout=20).read()
    except urllib.error.HTTPError:
        pass
    for accept in ("application/json", "text/html"):
        assert secret.encode() not in ask(busy, accept=accept)[2]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_gets_a_page_that_may_do_nothing_else(busy, method):
    status, headers, body = ask(busy, method, accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert body.startswith(b"<!doctype html>") is (method == "GET")


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("length", [None, 0, 20, 300_000])
def test_other_methods_are_answered_here_and_not_by_the_provider(busy, method, length):
    body = None if length is None else b"x" * length
    status, headers, answer = ask(busy, method, body=body)
    assert (status, headers["allow"], answer) == (405, "GET, HEAD", b"")


def test_other_paths(busy):
    # Goes to the upstream, which does not know it.
    assert b"<!doctype" not in ask(busy, path="/backpressure/x")[2]
    assert ask(busy, path="/backpressure?at=1", accept="application/json")[0] == 200


@pytest.fixture(scope="module")
def seen(busy):
    """What Chromium saw."""
    directory = RUN_DIR / "page"
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        "node", "page.mjs", f"http://127.0.0.1:{busy.envoy.port}{CONFIG['status_path']}", directory,
        shutil.which("chromium") or "chromium"]
    done = subprocess.run(command, cwd=ROOT / "tests" / "adopt", capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(seen, view):
    assert seen[view]["violations"] == []


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_works_and_asks_nobody_else(seen, view):
    assert seen[view]["errors"] == []
    assert seen[view]["elsewhere"] == []
    for words in ("m-chat", "Shares of those that wait", "acme", "Recent refusals", "Health of the gate"):
        assert words in seen[view]["text"]


@pytest.mark.parametrize("view", [*VIEWS, "long"])
def test_nothing_is_wider_than_the_screen_or_cut_off(seen, view):
    assert seen[view]["width"] <= seen[view]["viewport"]
    assert seen[view]["cut"] == []


@pytest.mark.parametrize("view", VIEWS)
def test_the_keyboard_stops_and_starts_the_refreshing(seen, view):
    keys = seen[view]["keys"]
    assert keys["seen"] == [["hold", "false"], ["hold", "true"], ["hold", "false"]]
    assert keys["still"]
