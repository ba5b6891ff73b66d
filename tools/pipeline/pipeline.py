"""Backpressure from the GPU to the client, as a picture: `make demo-pipeline`. Takes about three minutes.

A simulated vLLM runs five sequences at once, 0.5 to 2 s each. Clients come 1 a second, then up to 50, then 1 again, and wait 30 s for
an answer; beside them a batch worker takes one job after the other and stops for a while when it is turned away. First with nothing in
between and a queue of 200 in the server, then through the gate with `concurrent_requests: 5` and at most 100 parked calls. Draws `docs/figures/pipeline.svg` and
ends with an error when something that is promised does not hold.
"""

import argparse
import asyncio
import dataclasses
import json
import pathlib
import random
import sys
import time

import aiohttp

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "compare")]

from harness import Envoy, wasm_filter
from vllm import LENGTH_S, SEQUENCES, Vllm
from svg import BAD, GREY, OURS, THEIRS, series

LOW, HIGH, TIMEOUT_S, QUEUE = 1, 50, 30.0, 200
# A client comes back at the time that it was told, as the SDKs do, twice at most, and not if that is later than this.
PATIENCE_S, RETRIES = 30.0, 2
WAIT_MS = 20_000
CONFIG = {
    "identity": {"class": [{"header": "x-priority"}]},
    "classes": {"interactive": {"weight": 8}, "batch": {"weight": 1}},
    "default_class": "interactive",
    "pools": [{
        "name": "vllm", "provider": "openai", "limits": {"concurrent_requests": SEQUENCES},
        "max_wait_ms": WAIT_MS, "max_parked": 100, "learn": {"headers": False},
    }],
}


@dataclasses.dataclass
class Call:
    """One try of a client; `cut` is a timeout in the middle of the answer. `first` and `end` are the first piece of the answer and its end, in seconds since the start."""

    begun: float
    status: str = "timeout"
    first: float = None
    end: float = None
    told: float = None
    tries: int = 0
    whole: bool = False


class Run:
    """One variant, with all that happened."""

    def __init__(self, seconds, port, clock):
        self.seconds, self.url, self.clock = seconds, f"http://127.0.0.1:{port}/v1/chat/completions", clock
        self.calls, self.batch, self.stops = [], [], 0

    def rate(self, at):
        """Low for a tenth, up for 0.35, high for a tenth, down for 0.35, low for a tenth of the run."""
        part = at / self.seconds
        up = min(max((part - 0.1) / 0.35, 0), 1) - min(max((part - 0.55) / 0.35, 0), 1)
        return LOW + (HIGH - LOW) * up

    async def client(self, http, number):
        """One call with its returns: a record for each try."""
        begun = self.clock()
        for again in range(RETRIES + 1):
            call = await self.call(http, number, "interactive", self.calls)
            call.tries = again + 1
            if call.told is None or call.end + call.told > begun + PATIENCE_S:
                return
            await asyncio.sleep(call.told)

    async def call(self, http, number, priority, into):
        call = Call(self.clock())
        into.append(call)
        body = json.dumps({"model": "m", "stream": True, "max_tokens": 10,
                           "messages": [{"role": "user", "content": f"{priority} call {number}"}]})
        try:
            async with asyncio.timeout(TIMEOUT_S):
                async with http.post(self.url, data=body, headers={"content-type": "application/json", "x-priority": priority}) as response:
                    call.status = str(response.status)
                    if "retry-after-ms" in response.headers:
                        call.told = float(response.headers["retry-after-ms"]) / 1000
                    async for piece in response.content.iter_any():
                        call.first = call.first or self.clock()
                        call.whole = call.whole or b"[DONE]" in piece
        except TimeoutError:
            call.status = "timeout" if call.first is None else "cut"
        except aiohttp.ClientError:
            call.status = "cut"
        call.end = self.clock()
        return call

    async def worker(self, http):
        """Batch jobs one after the other. Turned away, it stops for the time that it was told, else for 2 s."""
        number = 0
        while self.clock() < self.seconds:
            number += 1
            call = await self.call(http, number, "batch", self.batch)
            if call.status != "200":
                self.stops += 1
                await asyncio.sleep(call.told or 2.0)

    async def play(self, seed):
        chance, tasks, due = random.Random(seed), [], 0.0
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            worker = asyncio.create_task(self.worker(http))
            while due < self.seconds:
                await asyncio.sleep(max(0.0, due - self.clock()))
                tasks.append(asyncio.create_task(self.client(http, len(tasks))))
                due += chance.expovariate(self.rate(due))
            await asyncio.gather(*tasks, worker)

    def counts(self):
        out = {}
        for call in self.calls:
            out[call.status] = out.get(call.status, 0) + 1
        return out

    def served(self, busy):
        """Calls that were answered, of the time when more comes than fits, or of the rest."""
        capacity = SEQUENCES / (sum(LENGTH_S) / 2)
        return [call for call in self.calls if call.status == "200" and (self.rate(call.begun) > 1.5 * capacity) == busy]


def length(run):
    """When the last call of the run ended."""
    return max(call.end for call in run.calls + run.batch)


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


async def variant(seconds, gated, seed=1):
    started = time.monotonic()
    clock = lambda: time.monotonic() - started  # noqa: E731
    async with Vllm(QUEUE, clock) as vllm:
        if not gated:
            run = Run(seconds, vllm.port, clock)
            started = time.monotonic()
            await run.play(seed)
            return run, vllm
        with Envoy(vllm.port, [wasm_filter(CONFIG)], workers=1) as envoy:
            run = Run(seconds, envoy.port, clock)
            started = time.monotonic()
            await run.play(seed)
            return run, vllm


def grid(samples, seconds, step=0.2):
    """Means over short steps of a value that changes at the samples: what stands for a moment is not drawn as if it stayed."""
    out, at, value, place = [], 0.0, 0, 0
    for number in range(int(seconds / step)):
        end, area = (number + 1) * step, 0.0
        while place < len(samples) and samples[place][0] < end:
            area += value * (samples[place][0] - at)
            at, value = samples[place]
            place += 1
        area += value * (end - at)
        at = end
        out.append((end - step / 2, round(area / step, 2)))
    return out


def draw(runs, path):
    panels, seconds = [], max(length(run) for _, run, _ in runs)
    for title, run, vllm in runs:
        points = [grid([(at, values[index]) for at, *values in vllm.samples], seconds) for index in (0, 1)]
        per = {status: {} for status in ("200", "429", "503", "timeout")}
        for call in run.calls:
            bucket = per.setdefault("timeout" if call.status == "cut" else call.status, {})
            bucket[int(call.end)] = bucket.get(int(call.end), 0) + 1
        lines = [(name, colour, [(second, per[status].get(second, 0)) for second in range(int(seconds) + 1)], False)
                 for name, colour, status in (("answered", OURS, "200"), ("429 with a time", THEIRS, "429"), ("503", GREY, "503"),
                                              ("timeout", BAD, "timeout"))]
        panels += [
            (f"{title}: inside the server", 10 if gated(vllm) else QUEUE,
             [("running", OURS, points[0], False), ("waiting", BAD, points[1], False)]),
            (f"{title}: outcomes a second", max(10, HIGH), lines),
            (f"{title}: seconds until answered", TIMEOUT_S,
             [("answered", OURS, [(call.begun, call.end - call.begun) for call in run.calls if call.status == "200"], True),
              ("timeout", BAD, [(call.begun, call.end - call.begun) for call in run.calls if call.status in ("timeout", "cut")], True)]),
        ]
    path.write_text(series("Load from 1 to 50 calls a second and back on a server that does 4", panels, seconds))


def gated(vllm):
    return max((waiting for _, _, waiting in vllm.samples), default=0) <= 10


def use(vllm, begin, end):
    """Mean part of the slots in use between two times."""
    area, at, running = 0.0, 0.0, 0
    for time_, now, _ in [*vllm.samples, (end, 0, 0)]:
        area += running * max(0.0, min(time_, end) - max(at, begin))
        at, running = time_, now
    return area / (end - begin) / SEQUENCES


def report(title, run, vllm):
    service = {busy: [call.end - call.first for call in run.served(busy)] for busy in (False, True)}
    waits = [call.first - call.begun for call in run.served(True)]
    print(f"\n{title}: {len(run.calls)} calls, " + ", ".join(f"{count} x {status}" for status, count in sorted(run.counts().items())))
    print(f"  running at most {max(running for _, running, _ in vllm.samples)}, waiting inside at most"
          f" {max(waiting for _, _, waiting in vllm.samples)}, 503s {vllm.refused}, answers broken off {vllm.aborted}")
    print(f"  answer from first piece to end, p50/p99: quiet {quantile(service[False], 0.5):.2f}/{quantile(service[False], 0.99):.2f} s,"
          f" busy {quantile(service[True], 0.5):.2f}/{quantile(service[True], 0.99):.2f} s;"
          f" wait when busy {quantile(waits, 0.5):.2f}/{quantile(waits, 0.99):.2f} s")
    print(f"  batch worker: {sum(call.status == '200' for call in run.batch)} jobs done, stopped {run.stops} times")
    return service, waits


def check(run, vllm, service, waits, seconds):
    """What is promised, as (what, whether it holds)."""
    counts = run.counts()
    refused = [call for call in run.calls if call.status == "429"]
    busy = use(vllm, 0.25 * seconds, 0.65 * seconds)
    return [
        (f"never more than {SEQUENCES} at once", max(running for _, running, _ in vllm.samples) <= SEQUENCES),
        ("nothing waits inside the server for more than a moment", max(waiting for _, _, waiting in vllm.samples) <= 1),
        ("the server never refuses", vllm.refused == 0),
        ("no client runs into its timeout", counts.get("timeout", 0) == 0),
        ("who is refused is told a time", bool(refused) and all(call.told for call in refused)),
        ("no stream is cut", counts.get("cut", 0) == 0 and vllm.aborted == 0 and all(c.whole for c in run.calls if c.status == "200")),
        ("nothing but 200 and 429", set(counts) <= {"200", "429"}),
        ("a refusal comes at once", quantile([call.end - call.begun for call in refused], 0.99) < 0.5 + WAIT_MS / 1000),
        ("an admitted call waits no longer than it may", max(waits) <= WAIT_MS / 1000 + 0.5),
        ("answers take as long when busy as when quiet", quantile(service[True], 0.9) <= LENGTH_S[1] + 0.3),
        (f"the server is kept busy while the load is high ({busy:.0%} of its slots)", busy >= 0.85),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=70)
    parser.add_argument("--figure", type=pathlib.Path, default=ROOT / "docs" / "figures" / "pipeline.svg")
    options = parser.parse_args()
    runs = []
    for title, with_gate in (("No gate", False), ("Gate", True)):
        run, vllm = asyncio.run(variant(options.seconds, with_gate))
        service, waits = report(title, run, vllm)
        runs.append((title, run, vllm))
    verdicts = check(run, vllm, service, waits, options.seconds)
    print()
    for what, holds in verdicts:
        print(f"  {'ok    ' if holds else 'FAILED'} {what}")
    _, bare, _ = runs[0]
    worse = bare.counts().get("timeout", 0) + bare.counts().get("cut", 0) > 0
    print(f"  {'ok    ' if worse else 'FAILED'} without the gate, timeouts pile up")
    draw(runs, options.figure)
    return 0 if worse and all(holds for _, holds in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
