"""Every system on every load, several runs at a time: `make compare`. Raw data go to `compare/results`.

    compare.py [--repeat 3] [--parallel 4] [--parallel-temporal 2] [--systems a,b] [--loads a,b] [--only runs,latency,report]

Runs share the machine, so a run takes what the others leave; waits here are seconds, and `--parallel` is small for that reason. Added
latency is measured on its own, when nothing else runs.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from loads import LOADS
from report import write
from systems import ALL, SYSTEMS

RESULTS = HERE / "results"


def command(system, load, seed, out, *more):
    return [sys.executable, HERE / "run.py", "--system", system, "--load", load, "--seed", seed, "--out", out, *more]


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return done.returncode, done.stderr


def plan(options):
    """(system, load, repeat, further flags, name) of every run, those of one load beside each other."""
    for repeat in range(1, options.repeat + 1):
        for load in options.loads:
            for system in options.systems:
                yield system, load, repeat, [], f"{system}-{load}-{repeat}"
        if "naive" in options.systems and "tokens" in options.loads:
            yield "naive", "tokens", repeat, ["--hold-slot"], f"naive-in-slot-tokens-{repeat}"


def runs(options):
    """Runs the plan; names of runs that failed."""
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool, \
            concurrent.futures.ThreadPoolExecutor(options.parallel_temporal) as temporal_pool:
        def one(item):
            system, load, repeat, more, name = item
            if options.keep and (RESULTS / f"{name}.json").exists():
                return None
            begun = time.monotonic()
            status, text = run(command(system, load, repeat, RESULTS / f"{name}.json", *more))
            line = f"{name}: {time.monotonic() - begun:.0f} s"
            if status == 0:
                figures = json.loads((RESULTS / f"{name}.json").read_text())["figures"]
                line += f", Jain {figures['jain']:.3f}, use {figures['use']:.3f}, 429s {figures['provider_429s']}"
            print(line if status == 0 else f"{line}: FAILED\n{text[-1500:]}", flush=True)
            return name if status else None

        started = [(temporal_pool if SYSTEMS[item[0]].temporal else pool).submit(one, item) for item in plan(options)]
        return [future.result() for future in started if future.result()]


def versions():
    """What was compared, as the programs themselves say it."""
    def said(words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        return (done.stdout + done.stderr).strip()

    def package(name, environment=".venv"):
        found = sorted((HERE / environment).glob(f"lib/python*/site-packages/{name}-*.dist-info"))
        return found[-1].name.removesuffix(".dist-info").split("-", 1)[1]

    from harness.paths import envoy_path
    return {
        "Envoy": re.search(r"/(\d+\.\d+\.\d+)/", said([envoy_path(), "--version"])).group(1),
        "nginx": said(["nginx", "-v"]).rsplit("/", 1)[1].split()[0], "Redis": said(["redis-server", "--version"]).split("v=")[1].split()[0],
        "LiteLLM": package("litellm", ".venv-litellm"), "Temporal Server": re.search(r"Server ([\d.]+)", said([HERE / ".venv/bin/temporal", "--version"])).group(1),
        "Temporal Python SDK": package("temporalio"), "Python": sys.version.split()[0],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--parallel-temporal", type=int, default=2, help="of those on Temporal, each with a server of its own")
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[one.name for one in ALL])
    parser.add_argument("--loads", type=lambda text: text.split(","), default=list(LOADS))
    parser.add_argument("--keep", action="store_true", help="run only what has no result yet")
    parser.add_argument("--only", default="runs,latency,report")
    options = parser.parse_args()
    parts, failed = options.only.split(","), []
    if "runs" in parts:
        RESULTS.mkdir(exist_ok=True)
        if not options.keep:
            for _, _, _, _, name in plan(options):
                (RESULTS / f"{name}.json").unlink(missing_ok=True)
        (RESULTS / "versions.json").write_text(json.dumps({**versions(), "cores": os.cpu_count()}, indent=1) + "\n")
        failed = runs(options)
    if "latency" in parts:
        status, text = run([sys.executable, HERE / "latency.py", "--out", RESULTS / "latency.json"])
        failed += ["latency"] if status else []
        sys.stderr.write(text if status else "")
    if "report" in parts:
        write(RESULTS, HERE.parent / "docs")
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
