"""The example clients get all their answers from a gate that allows fewer at once."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from harness.provider import Provider
from test_envoy_files import Running

EXAMPLES = {
    "curl": (["examples/curl.sh"], 12),
    "openai-python": ([sys.executable, "examples/openai_sdk.py"], 20),
    "anthropic-python": ([sys.executable, "examples/anthropic_sdk.py"], 12),
    "openai-node": (["node", "examples/node/openai.mjs"], 12),
    "langchain": ([sys.executable, "examples/langchain_batch.py"], 1),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_call_is_answered(name):
    command, lines = EXAMPLES[name]
    # The limits of `make up`: sixty a minute, ten at once.
    with Provider() as provider, Running(ROOT / "envoy" / "envoy.yaml", provider.port) as envoy:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "GATE_URL": f"http://127.0.0.1:{envoy.port}"}, capture_output=True,
            text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == lines
        assert provider.total()["limited"] == 0
        if name == "curl":
            assert done.stdout.count(": 200 after") == lines
        envoy.log("denied" if lines > 12 else "admitted")
