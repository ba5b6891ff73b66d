"""`examples/temporal/worker.py` against the real development server, the gate in real Envoy, and a provider with caps."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from systems.base import ROOT
from systems.temporal import dev_server

from harness import Envoy, Provider, wasm_filter

CALLS = 12
CONFIG = {
    "identity": {"class": [{"header": "x-priority"}]},
    "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
    "default_class": "normal",
    "pools": [{"name": "chat", "limits": {"requests_per_minute": 60}, "burst_seconds": 2, "max_wait_ms": 200}],
}


def test_refused_activities_come_back_at_the_told_time_and_all_are_answered():
    with Provider(rpm=60, burst_seconds=3) as provider, Envoy(provider.port, [wasm_filter(CONFIG)]) as envoy, dev_server() as address:
        done = subprocess.run(
            [sys.executable, "examples/temporal/worker.py", str(CALLS)], cwd=ROOT, capture_output=True, text=True, timeout=120,
            env={**os.environ, "GATE_URL": f"http://127.0.0.1:{envoy.port}", "TEMPORAL_ADDRESS": address})
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        tries = [int(found) for found in re.findall(r"try (\d+):", done.stdout)]
        assert len(lines) == len(tries) == CALLS
        assert provider.total()["limited"] == 0
        # Ten do not fit at once; a booking is kept, so hardly anybody needs more than one return.
        assert sum(count > 1 for count in tries) >= 3
        assert max(tries) <= 6 and sum(tries) <= 3 * CALLS
