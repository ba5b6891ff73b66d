"""A gate under load, with everything happening that its metrics and its status page can tell."""

import contextlib
import json
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from harness import Envoy, Provider, wasm_filter
from harness.processes import Process, free_port, wait_until
from harness.provider import loadgen_command

CONFIG = {
    "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
    "classes": {"high": {"weight": 4}, "low": {"weight": 1}},
    "default_class": "low",
    "tenants": {"acme": {"weight": 2}, "beta": {}},
    "pools": [
        {
            "name": "m-chat",
            "match": {"models": ["m-chat"]},
            "limits": {"requests_per_minute": 600, "tokens_per_minute": 60000, "concurrent_requests": 200},
            "burst_seconds": 10,
        },
        {
            "name": "troubled",
            "match": {"models": ["troubled"]},
            "limits": {"requests_per_minute": 6000},
            "max_wait_ms": 0,
        },
        {
            "name": "odd",
            "match": {"models": ["odd"]},
            "limits": {"requests_per_minute": 6000},
        },
    ],
    # So short that a slow call outlives its reservation.
    "reservation_ttl_seconds": 1,
    "status_path": "/backpressure",
}

CALL = {"prompt": 140, "output": 60, "max_tokens": 200}
FLOWS = [
    {"tenant": "acme", "class": "high", "callers": 12, **CALL},
    {"tenant": "beta", "class": "low", "callers": 12, **CALL},
    {"tenant": "somebody", "class": "low", "callers": 8, **CALL},
]

# Calls that go wrong in one way each: (model, directions to the provider).
ODD = [
    ("troubled", "status=429,retry_after=1"),
    ("odd", "usage=omit"),
    ("odd", "delay_ms=1800"),
    ("nobody-knows-it", ""),
]


class Busy:
    """Provider, Envoy and load; `seconds` is how long the load goes on."""

    def __init__(self, seconds=120, config=None):
        self.seconds = seconds
        self.config = config or CONFIG
        self.exits = contextlib.ExitStack()
        self.over = threading.Event()

    def __enter__(self):
        provider = self.exits.enter_context(Provider(behave="delay_ms=200"))
        self.envoy = self.exits.enter_context(Envoy(provider.port, [wasm_filter(self.config)], workers=2))
        self.load = subprocess.Popen(
            loadgen_command(self.envoy.port, FLOWS, seconds=self.seconds, retry="obey", seed=7),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.oddities = threading.Thread(target=self._oddities, daemon=True)
        self.oddities.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.load.kill()
        self.load.wait()
        self.exits.close()

    def _oddities(self):
        deadline = time.monotonic() + self.seconds
        while not self.over.wait(0.2) and time.monotonic() < deadline:
            for model, mock in ODD:
                with contextlib.suppress(OSError):
                    self.call(model, mock)

    def call(self, model, mock="", tenant="beta"):
        body = json.dumps({"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "Name a knot."}]})
        headers = {"x-tenant": tenant, "x-mock": mock}
        request = urllib.request.Request(f"http://127.0.0.1:{self.envoy.port}/v1/chat/completions", body.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def status(self):
        """What the status page says to programs."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.envoy.port}{self.config['status_path']}", headers={"accept": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)


class Prometheus:
    """A Prometheus with the given configuration directory, already adapted to the port it scrapes."""

    def __init__(self, config):
        self.port = free_port()
        self.process = Process("prometheus", [])
        self.process.command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.process.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]

    def __enter__(self):
        self.process.start()
        wait_until(self._ready, 60, "Prometheus")
        return self

    def __exit__(self, *_):
        self.process.stop()

    def _ready(self):
        assert self.process.alive(), self.process.text()
        with contextlib.suppress(OSError):
            return self.get("/api/v1/status/runtimeinfo")["status"] == "success"
        return False

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as response:
            return json.load(response)

    def query(self, expression):
        """Samples of an instant query: (labels, value)."""
        answer = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]]
