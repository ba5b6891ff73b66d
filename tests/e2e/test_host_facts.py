"""What the filter relies on in Envoy, pinned without the filter. Each fact has a row in docs/host-facts.md."""

import contextlib
import subprocess
import threading
import time

import httpx
import pytest
from gatekit import Raw, head
from harness import ROOT, Envoy, Listener, call, module_path, parallel, wasm_filter
from harness.envoy import LABELS
from harness.paths import envoy_path
from harness.processes import wait_until

PARK = {"x-probe-park": "headers"}


def probe(words="", hold_headers=True, **options):
    return wasm_filter(words or "none=0", module=module_path("probe"), hold_headers=hold_headers, vm_id="probe", name="probe", **options)


@contextlib.contextmanager
def probed(provider, words="", workers=1, hold_headers=True, failure_policy="FAIL_RELOAD", drain_seconds=1, **listener):
    """An Envoy with the probe, on the listener `ingress`."""
    filters = [probe(words, hold_headers, failure_policy=failure_policy)]
    envoy = Envoy(provider.port, filters, workers=workers, drain_seconds=drain_seconds)
    envoy.listeners["ingress"] = Listener(filters, port=envoy.port, **listener)
    with envoy:
        yield envoy


def counted(envoy, name):
    return envoy.stats("probe.").get(f"wasmcustom.probe.{name}", 0)


class Later:
    """A call in a thread of its own; its reply, or the error it ended with."""

    def __init__(self, action):
        self.result = None
        self.thread = threading.Thread(target=self._run, args=(action,))
        self.thread.start()

    def _run(self, action):
        try:
            self.result = action()
        except (OSError, httpx.HTTPError) as error:
            self.result = error

    def get(self, seconds=20):
        self.thread.join(seconds)
        return self.result


def test_creating_a_missing_entry_under_a_version_that_never_matches_succeeds_exactly_once(provider):
    with probed(provider, workers=4) as envoy:
        for key in range(5):
            answers = parallel(40, lambda _: call(envoy.port, b"", headers={"x-probe-create": f"bp.{key}"}).body)
            assert (answers.count(b"created"), answers.count(b"exists")) == (1, 39)


def test_every_worker_and_the_main_thread_tick(provider):
    with probed(provider, "tick=20", workers=3) as envoy:
        wait_until(lambda: counted(envoy, "tickers") == 4, 10, "four ticking roots")
        time.sleep(0.3)
        assert counted(envoy, "tickers") == 4


@pytest.mark.parametrize("how", ["free", "refuse"])
def test_hundreds_of_parked_calls_end_when_a_tick_ends_a_few(provider, how):
    with probed(provider, f"tick=1 wait=1 {how}=12") as envoy:
        calls = [Later(lambda: call(envoy.port, b"{}", headers=PARK).status) for _ in range(500)]
        wait_until(lambda: counted(envoy, "parked") == 500, 20, "500 parked calls")
        call(envoy.port, headers={"x-probe-go": "1"}, method="GET")
        assert [later.get() for later in calls] == [200 if how == "free" else 429] * 500
        assert envoy.stat("wasm.probe.vm_reload") == 0


def test_a_client_that_leaves_while_parked_is_logged_once(provider):
    with probed(provider) as envoy:
        with Raw(envoy) as raw:
            raw.send(head(content_length=2, x_probe_park="headers") + b"{}")
            wait_until(lambda: counted(envoy, "parked") == 1, 10, "a parked call")
            assert counted(envoy, "logged") == 0
        wait_until(lambda: counted(envoy, "logged") == 1, 10, "the end of the call")
        time.sleep(0.2)
        assert (counted(envoy, "logged"), counted(envoy, "done")) == (1, 1)


@pytest.mark.parametrize("policy, after", [("FAIL_CLOSED", 503), ("FAIL_OPEN", 200), ("FAIL_RELOAD", 200)])
def test_a_trap_loses_the_parked_calls_and_the_policy_decides_on_new_ones(provider, policy, after):
    with probed(provider, failure_policy=policy) as envoy:
        assert call(envoy.port, b"{}").headers.get("x-probe") == "passed"
        parked = Later(lambda: call(envoy.port, b"{}", headers=PARK, timeout=15).status)
        wait_until(lambda: counted(envoy, "parked") == 1, 10, "a parked call")
        trapped = call(envoy.port, b"{}", headers={"x-probe-trap": "1"})
        assert trapped.status == 503
        time.sleep(1.5)
        reply = call(envoy.port, b"{}")
        assert reply.status == after
        assert ("x-probe" in reply.headers) == (policy == "FAIL_RELOAD")
        # Nobody lets the parked call go any more: it ends when its client or a timeout ends it.
        assert parked.get(1) is None
    parked.get()


def test_an_old_root_goes_on_ticking_for_its_parked_calls(provider):
    with probed(provider, "tick=10 wait=1 free=9", drain_seconds=20) as envoy:
        parked = Later(lambda: call(envoy.port, b"{}", headers=PARK))
        wait_until(lambda: counted(envoy, "parked") == 1, 10, "a parked call")
        assert envoy.put("ingress", Listener([probe("tick=10 wait=1 refuse=9")], port=envoy.port))
        call(envoy.port, headers={"x-probe-go": "1"}, method="GET")
        assert parked.get().status == 200
        assert call(envoy.port, b"{}", headers=PARK).status == 429


def test_a_refusal_from_a_tick_reaches_http1_http2_and_grpc(provider):
    with probed(provider, "tick=10 refuse=9") as envoy:
        url = f"http://127.0.0.1:{envoy.port}/v1/chat/completions"
        assert (call(envoy.port, b"{}", headers=PARK).status, call(envoy.port, headers=PARK, method="GET").status) == (429, 429)
        with httpx.Client(http1=False, http2=True) as client:
            reply = client.post(url, content=b"{}", headers=PARK)
            assert (reply.http_version, reply.status_code, reply.text) == ("HTTP/2", 429, "refused")
            grpc = client.post(url, content=b"\0\0\0\0\0", headers={**PARK, "content-type": "application/grpc", "te": "trailers"})
            # 14 is UNAVAILABLE, to which 429 is mapped.
            assert (grpc.status_code, grpc.headers["grpc-status"], grpc.headers["grpc-message"]) == (200, "14", "refused")


@pytest.mark.parametrize("place, hold_headers, status", [("headers", False, 200), ("headers", True, 413), ("body", True, 413)],
                         ids=["all iteration stopped", "headers held", "body held"])
def test_a_parked_body_above_the_buffer_limit_meets_a_413_unless_all_iteration_stopped(provider, place, hold_headers, status):
    with probed(provider, "tick=10 from=1500 free=9", hold_headers=hold_headers, buffer_limit=32_768) as envoy:
        assert call(envoy.port, b"x" * 500_000, headers={"x-probe-park": place}).status == status


@pytest.mark.parametrize("ended, status", [(True, 504), (False, 408)], ids=["whole request", "half a body"])
def test_the_idle_timeout_ends_a_parked_call(provider, ended, status):
    with probed(provider, hcm={"stream_idle_timeout": "0.5s"}) as envoy, Raw(envoy) as raw:
        raw.send(head(content_length=2, x_probe_park="headers") + (b"{}" if ended else b"{"))
        assert f" {status} ".encode() in raw.until(b"\r\n\r\n").split(b"\r\n", 1)[0]


def test_a_metric_defined_twice_has_two_ids_and_one_value(provider):
    with probed(provider) as envoy:
        assert call(envoy.port, b"{}", headers={"x-probe-define": "1"}).body == b"false 7 7"


def test_a_worker_whose_configuration_fails_passes_everything_unseen(provider):
    # Once for the trial run, once for the main thread, then once a worker.
    with probed(provider, "lame=3", workers=4) as envoy:
        seen = parallel(60, lambda _: call(envoy.port, b"{}"))
        assert {reply.status for reply in seen} == {200}
        assert {"x-probe" in reply.headers for reply in seen} == {True, False}


def test_the_shipped_envoy_yaml_is_accepted_and_has_a_tag_rule_for_every_label():
    path = ROOT / "envoy" / "envoy.yaml"
    done = subprocess.run([envoy_path(), "--mode", "validate", "-c", path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for label in LABELS:
        assert f"tag_name: {label}," in path.read_text()
    assert "failure_policy: FAIL_RELOAD" in path.read_text()
