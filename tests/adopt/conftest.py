"""What the tests of everything around the filter share: examples, packages, pages, metrics."""

import json
import pathlib
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness.paths import RUN_DIR, envoy_path  # noqa: E402

ENVOY_FILES = sorted((ROOT / "envoy").glob("*.yaml"))
WASM_TYPE = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"


def documents(path):
    """The YAML documents of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def wasm_configs(value):
    """Every Wasm plugin configuration somewhere inside a document."""
    if isinstance(value, dict):
        if value.get("@type") == WASM_TYPE:
            yield value["config"]
        value = value.values()
    elif not isinstance(value, list):
        return
    for inner in value:
        yield from wasm_configs(inner)


def check_envoy(text, name):
    """What Envoy says against a bootstrap; the filter's own parser runs as well. Empty: nothing."""
    RUN_DIR.mkdir(exist_ok=True)
    path = RUN_DIR / f"check-{name}.yaml"
    path.write_text(text)
    done = subprocess.run(
        [envoy_path(), "--mode", "validate", "-c", path, "--log-level", "error"], cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def check_plugin(config, name):
    """What the filter's own parser, inside Envoy, says against a plugin configuration. Empty: nothing."""
    bootstrap = yaml.safe_load((ROOT / "envoy" / "envoy.yaml").read_text())
    (plugin,) = wasm_configs(bootstrap)
    plugin["configuration"]["value"] = config if isinstance(config, str) else json.dumps(config)
    return check_envoy(json.dumps(bootstrap), name)


@pytest.fixture(scope="session", autouse=True)
def module():
    """The compiled filter; all examples name it by this path."""
    path = ROOT / "target" / "backpressure.wasm"
    if not path.exists():
        pytest.exit("run `make build` first")
    return path
