"""The mock provider and the load generator as child processes."""

import json
import re
import signal
import subprocess
import urllib.request

from .paths import tool_path
from .processes import Process, wait_until


class Provider:
    """A running mock provider. Limits: rpm, tpm, itpm, otpm, concurrent, burst_seconds; `bind` is where it listens."""

    def __init__(self, behave="", fast=False, cores=None, **limits):
        command = [tool_path("mock-provider"), "--port", 0]
        for name, value in limits.items():
            command += [f"--{name.replace('_', '-')}", value]
        if behave:
            command += ["--behave", behave]
        if fast:
            command.append("--fast")
        self.process = Process("provider", command, cores)
        self.port = None

    def __enter__(self):
        self.process.start()
        found = wait_until(lambda: re.search(r"listening on http://\S+:(\d+)", self.process.text()), 10, "mock provider")
        self.port = int(found.group(1))
        return self

    def __exit__(self, *_):
        self.process.stop(signal.SIGINT)

    def _request(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body)
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def stats(self):
        return self._request("/stats")

    def total(self):
        return self.stats()["total"]

    def reset(self):
        self._request("/reset", b"")

    def configure(self, limits=None, behave=None):
        body = {name: value for name, value in [("limits", limits), ("behave", behave)] if value is not None}
        self._request("/config", json.dumps(body).encode())


def loadgen_command(port, flows, address="127.0.0.1", **options):
    """The command of a load run. `flows`: dicts; options by flag name, True for a bare switch."""
    command = [tool_path("loadgen"), "--url", f"http://{address}:{port}"]
    for name, value in options.items():
        command.append(f"--{name.replace('_', '-')}")
        if value is not True:
            command.append(value)
    for flow in flows:
        command += ["--flow", ",".join(f"{name}={value}" for name, value in flow.items())]
    return [str(word) for word in command]


def loadgen(port, flows, **options):
    """Runs the load generator to its end and returns its summary."""
    done = subprocess.run(loadgen_command(port, flows, **options), capture_output=True, check=True, text=True)
    return json.loads(done.stdout)
