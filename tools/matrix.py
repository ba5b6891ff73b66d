"""Runs the end-to-end tests on several Envoys and prints a table for the README: `matrix.py VERSION...`."""

import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(version):
    subprocess.run([ROOT / "tools" / "setup.sh", "envoy", version], check=True)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "--tb=short", "tests/e2e"], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "ENVOY_VERSION": version})
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout.splitlines()[-1])}
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", done.stdout, re.M)
    if done.returncode:
        print(done.stdout[-8000:], flush=True)
    return counts, failed, time.monotonic() - began, done.returncode == 0


def main():
    rows, good = [], True
    for version in sys.argv[1:]:
        counts, failed, seconds, passed = run(version)
        good &= passed
        rows.append(f"| {version} | {counts.get('passed', 0)} | {counts.get('failed', 0) + counts.get('error', 0)} | {', '.join(failed) or 'none'} |")
        print(f"{version}: {counts} in {seconds:.0f} s", flush=True)
    print("\n| Envoy | passed | failed | which |\n| --- | --- | --- | --- |")
    print("\n".join(rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
