"""Runs fuzz targets for a while from the committed seeds and samples.

    tools/fuzz.py SECONDS AT_ONCE [TARGET...]
    tools/fuzz.py build

Builds them first as `cargo fuzz build --sanitizer none` does, which need not be installed for it. Without a sanitizer:
the crate has no unsafe code outside the host calls, which are not in the native build, so what a sanitizer finds cannot
be there, and the pinned compiler of the repository is enough. What is found goes to fuzz/artifacts/TARGET.
"""

import base64
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUZZ = ROOT / "fuzz"
SAMPLES = ROOT / "tests" / "samples"

# Targets with the files of the repository that are seeds of theirs.
TARGETS = {
    "config": ["tests/check/*.yaml", "tests/config/*/*"],
    "request": ["tests/samples/requests/*"],
    "response_json": ["tests/samples/*.resp.json"],
    "response_sse": ["tests/samples/*.sse"],
    "response_ndjson": ["tests/samples/*.ndjson"],
    "response_array": ["tests/samples/*.resp.json"],
    "response_eventstream": ["tests/samples/*.eventstream"],
    "response_encoded": ["tests/samples/*.gz", "tests/samples/openai-chat-stream-u*.sse"],
    "ledger": ["fuzz/seeds/ledger/*"],
    "learned": ["fuzz/seeds/learned/*"],
    "headers": ["tests/samples/*.headers", "fuzz/seeds/headers/*"],
    "session": ["fuzz/seeds/session/*"],
}
# A target that takes longer than this for one input, in seconds on a machine that others use too, or more memory than
# this, in MiB, has failed. Inputs take milliseconds, or never end.
SLOWEST, LARGEST = 60, 1024
COVERAGE = ["inline-8bit-counters", "pc-table", "trace-compares"]


def build():
    """Where the binaries are, with coverage counters for the mutator."""
    flags = ["-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=4", "-Cdebug-assertions",
             "--cfg=fuzzing", *(f"-Cllvm-args=-sanitizer-coverage-{what}" for what in COVERAGE)]
    host = re.search(r"host: (\S+)", subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout)[1]
    # Named, the host is a target like any other: build scripts and macros do without the flags.
    subprocess.run(["cargo", "build", "--locked", "--release", "--target", host, "--manifest-path", FUZZ / "Cargo.toml"],
                   cwd=ROOT, check=True, env={**os.environ, "RUSTFLAGS": " ".join(flags)})
    return FUZZ / "target" / host / "release"


def run(binaries, target, seconds):
    corpus, artifacts = FUZZ / "corpus" / target, FUZZ / "artifacts" / target
    for directory in (corpus, artifacts):
        directory.mkdir(parents=True, exist_ok=True)
    for pattern in TARGETS[target]:
        for seed in ROOT.glob(pattern):
            if seed.stat().st_size <= 16_384:
                shutil.copy(seed, corpus / f"seed-{seed.name}")
    done = subprocess.run(
        [binaries / target, corpus, f"-artifact_prefix={artifacts}/", f"-max_total_time={seconds}", f"-timeout={SLOWEST}",
         f"-rss_limit_mb={LARGEST}", "-max_len=16384", "-print_final_stats=1", "-verbosity=1"],
        capture_output=True, text=True, errors="replace")
    runs = re.search(r"Done (\d+) runs in (\d+) second", done.stderr)
    coverage = re.findall(r"cov: (\d+)", done.stderr)
    if done.returncode == 0 and runs:
        print(f"{target}: {runs[1]} inputs in {runs[2]} s, {coverage[-1] if coverage else '?'} edges, nothing found", flush=True)
        return True
    print(f"{target}: FAILED\n{done.stderr[-3000:]}", flush=True)
    # The whole input, for where only the log is left of the machine.
    for found in re.findall(r"Test unit written to (\S+)", done.stderr):
        print(f"{target}: {found} in base64: {base64.b64encode(pathlib.Path(found).read_bytes()).decode()}", flush=True)
    return False


def main():
    if sys.argv[1] == "build":
        build()
        return 0
    seconds, at_once, targets = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(TARGETS)
    binaries = build()
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once) as pool:
        results = list(pool.map(lambda target: run(binaries, target, seconds), targets))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
