"""Where things are, and the commands that build them."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "target"
RUN_DIR = ROOT / ".run"

# What each module is built by; the filter itself is built by `make build`.
MODULES = {
    "backpressure": None,
    "backpressure-trap": ["--profile", "wasm", "--lib", "--features", "trap-test", "--target-dir", "target/trap"],
    "noop": ["--release", "--manifest-path", "benches/noop/Cargo.toml", "--target-dir", "target/noop"],
    "probe": ["--release", "--manifest-path", "tests/e2e/probe/Cargo.toml", "--target-dir", "target/probe"],
}


def module_path(name):
    """The compiled wasm module `name`, built first where that is quick."""
    arguments = MODULES[name]
    if arguments is None:
        path = TARGET / f"{name}.wasm"
        if not path.exists():
            raise FileNotFoundError(f"{path}: run `make build` first")
        return path
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--target", "wasm32-wasip1", *arguments], cwd=ROOT, check=True)
    directory = ROOT / arguments[arguments.index("--target-dir") + 1] / "wasm32-wasip1"
    stem = "envoy_backpressure" if name == "backpressure-trap" else name
    return directory / ("wasm" if "--profile" in arguments else "release") / f"{stem}.wasm"


def tool_path(name):
    """One of the two testbed programs."""
    path = TARGET / "tools" / name
    if not path.exists():
        subprocess.run(["cargo", "build", "--quiet", "--locked", "--profile", "tools", "-p", "testbed"], cwd=ROOT, check=True)
    return path


def envoy_path():
    """The Envoy binary: `ENVOY_BIN`, else the one of `ENVOY_VERSION` in `.tools`, else that of `.venv`."""
    if os.environ.get("ENVOY_BIN"):
        return pathlib.Path(os.environ["ENVOY_BIN"])
    version = os.environ.get("ENVOY_VERSION")
    places = sorted((ROOT / ".venv" / "lib").glob("python*/site-packages/envoy/_bin/envoy"))
    if version:
        places = [ROOT / ".tools" / f"envoy-{version}" / "envoy" / "_bin" / "envoy"]
    for path in places:
        if path.exists():
            return path
    raise FileNotFoundError("no Envoy binary: run `tools/setup.sh " + (f"envoy {version}`" if version else "venv`"))
