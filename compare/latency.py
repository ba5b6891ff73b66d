"""Added latency when no cap binds: one caller, one call after the other, all systems in turn within each round.

    latency.py [--rounds 20] [--calls 50] [--out FILE]
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import pathlib
import statistics
import sys
import time
import dataclasses

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from driver import text
from loads import LOADS, Job
from systems import SYSTEMS
from systems.base import PATH, System

from harness import Envoy, Provider, wasm_filter

LOOSE = dataclasses.replace(LOADS["tokens"], rpm=60_000_000, tpm=60_000_000_000)
# Limits of nginx end at what fits its rate; these are high enough never to be met by one caller.
NAMES = ["nginx", "envoy", "redis", "litellm", "gate"]
NOOP = pathlib.Path(__file__).resolve().parents[1] / "target" / "noop.wasm"


class Bare(System):
    name, title = "bare", "bare Envoy"

    async def start(self, stack, provider_port):
        return {"url": f"http://127.0.0.1:{stack.enter_context(Envoy(provider_port, [], workers=2)).port}{PATH}"}


class Direct(System):
    name, title = "direct", "no gateway"

    async def start(self, stack, provider_port):
        return {"url": f"http://127.0.0.1:{provider_port}{PATH}"}


class Noop(System):
    name, title = "noop", "a WebAssembly filter that does nothing"

    async def start(self, stack, provider_port):
        envoy = stack.enter_context(Envoy(provider_port, [wasm_filter({}, module=NOOP)], workers=2))
        return {"url": f"http://127.0.0.1:{envoy.port}{PATH}"}


class Unmatched(SYSTEMS["gate"]):
    """The gate reads the request, and finds that no pool takes it: nothing is decided, counted or settled."""

    name, title = "unmatched", "this gate, a model that no pool takes"

    def settings(self):
        out = super().settings()
        out["pools"][0]["match"] = {"models": ["another-model"]}
        return out


class Caller:
    """One kept connection."""

    def __init__(self, arguments):
        self.arguments = arguments
        host, _, rest = arguments["url"].removeprefix("http://").partition("/")
        self.connection, self.path = http.client.HTTPConnection(host, timeout=30), "/" + rest
        self.number = 0

    async def call(self):
        self.number += 1
        job = Job(self.number, "high", 200, 20, 100, 0.0)
        body = {"model": "m-chat", "max_tokens": 100, "messages": [{"role": "user", "content": f"{text(200)} call {self.number}"}]}
        headers = {"content-type": "application/json", "x-priority": "high", "x-mock": "output=20", **self.arguments.get("extra", lambda _: {})(job)}
        body = json.dumps({**body, **self.arguments.get("members", lambda _: {})(job)})
        begun = time.perf_counter()
        if "before" in self.arguments:
            await self.arguments["before"](job)
        self.connection.request("POST", self.path, body=body, headers=headers)
        response = self.connection.getresponse()
        answer = response.read()
        took = time.perf_counter() - begun
        if response.status != 200:
            raise RuntimeError(f"{response.status} {answer[:300]}")
        if "after" in self.arguments:
            await self.arguments["after"](job)
        return took * 1000


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


async def measure(options):
    kinds = [Direct, Bare, Noop, Unmatched, *(SYSTEMS[name] for name in NAMES)]
    async with contextlib.AsyncExitStack() as stack:
        provider = stack.enter_context(Provider())
        callers, times = {}, {kind.name: [] for kind in kinds}
        for kind in kinds:
            load = dataclasses.replace(LOOSE, rpm=6_000_000) if kind.name == "nginx" else LOOSE
            callers[kind.name] = Caller(await kind(load).start(stack, provider.port))
        for caller in callers.values():
            for _ in range(30):
                await caller.call()
        for round_ in range(options.rounds):
            turn = round_ % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                count = options.calls if kind.name != "litellm" else options.calls // 4
                times[kind.name] += [[round_, await callers[kind.name].call()] for _ in range(count)]
    out = {}
    for kind in kinds:
        against = "bare" if kind.name in ("noop", "unmatched", "envoy", "gate") else "direct"

        def added(part):
            """The difference within a round, median over rounds."""
            of = [quantile([took for at, took in times[kind.name] if at == round_], part) for round_ in range(options.rounds)]
            base = [quantile([took for at, took in times[against] if at == round_], part) for round_ in range(options.rounds)]
            return statistics.median(mine - other for mine, other in zip(of, base))

        values = [took for _, took in times[kind.name]]
        out[kind.name] = {
            "title": kind.title, "p50_ms": quantile(values, 0.5), "p99_ms": quantile(values, 0.99),
            "against": {"bare": "bare Envoy", "direct": "no gateway"}[against], "added_p50_ms": added(0.5), "added_p99_ms": added(0.99)}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    for one in result.values():
        print(f"{one['title']:40} p50 {one['p50_ms']:7.3f} ms  p99 {one['p99_ms']:7.3f} ms  added to {one['against']:11}"
              f" {one['added_p50_ms']:7.3f} / {one['added_p99_ms']:7.3f}")


if __name__ == "__main__":
    main()
