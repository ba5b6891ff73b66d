"""Callers, worker slots and single tries: the same for every system, so that only what stands before the provider differs."""

import asyncio
import contextlib
import heapq
import itertools
import json
import random
import time

import aiohttp

from loads import SLOTS, Caller

WORDS = ["knot", "rope", "bend", "hitch", "loop", "cord", "reef", "lash"]


def text(amount):
    return " ".join(itertools.islice(itertools.cycle(WORDS), amount))


class Refused(Exception):
    """Not served; `wait` in seconds if a time was told."""

    def __init__(self, wait):
        super().__init__(f"refused, wait {wait}")
        self.wait = wait


def told(headers):
    """The wait that a refusal names, in seconds."""
    try:
        if "retry-after-ms" in headers:
            return float(headers["retry-after-ms"]) / 1000
        return float(headers["retry-after"]) if "retry-after" in headers else None
    except ValueError:
        return None


class Driver:
    """One run of one load. `url`: where calls go; `extra(job)`: headers a system needs; `before(job)`: a coroutine that returns the
    wait in seconds of a refusal, or None; `after(job)`: runs when it was served; `obey`: use times that are told, else back off from
    0.5 s, doubling to 8 s; `hold_slot`: a refused call sleeps in its slot; `members(job)`: members to add to the body."""

    def __init__(self, load, url, seed, extra=None, before=None, after=None, obey=False, hold_slot=False, members=None):
        self.load, self.url, self.seed = load, url, seed
        self.after = after
        self.extra, self.before, self.obey, self.hold_slot = extra or (lambda job: {}), before, obey, hold_slot
        self.members = members or (lambda job: {})
        self.jobs, self.lags = [], []
        self.started = time.monotonic()
        self.random = random.Random(f"{seed}/back-off")
        self.http = None
        self.workers = []
        self.over = False

    def now(self):
        return time.monotonic() - self.started

    async def try_once(self, job):
        """Sends the job once. Raises `Refused`."""
        job.tries += 1
        begun = self.now()
        try:
            if self.before:
                wait = await self.before(job)
                if wait is not None:
                    job.refusals += 1
                    raise Refused(wait)
            body = {"model": "m-chat", "max_tokens": job.max_tokens,
                    "messages": [{"role": "user", "content": f"{text(job.prompt - 6)} call {job.number % 1_000_000}"}], **self.members(job)}
            headers = {"content-type": "application/json", "host": "llm.test", "x-priority": job.name,
                       "x-mock": f"output={job.output},delay_ms={job.service * 1000:.0f}", **self.extra(job)}
            async with self.http.post(self.url, data=json.dumps(body), headers=headers) as response:
                at = self.now()
                payload = await response.read()
                if response.status == 200:
                    job.admitted = at - job.service
                    job.held += max(0.0, job.admitted - begun)
                    usage = json.loads(payload).get("usage") or {}
                    job.prompt, job.output = usage.get("prompt_tokens", job.prompt), usage.get("completion_tokens", job.output)
                    if self.after:
                        await self.after(job)
                    return
                if response.status in (429, 503):
                    job.refusals += 1
                    raise Refused(told(response.headers))
                job.errors += 1
                raise Refused(None)
        except (aiohttp.ClientError, asyncio.TimeoutError, RuntimeError):
            # Calls under way when the session closes did not fail.
            job.errors += not self.over
            job.held += self.now() - begun
            raise Refused(None) from None
        except Refused:
            job.held += self.now() - begun
            raise

    def wait_of(self, job, refused):
        """What a caller does with a refusal."""
        naive = job.backoff * self.random.uniform(0.75, 1.0)
        if refused.wait is not None and self.obey:
            return refused.wait
        job.backoff = min(job.backoff * 2, 8.0)
        return naive

    async def run(self, seconds, serve):
        """Callers at work for `seconds`. `serve(job)` returns when the job is served."""
        timeout = aiohttp.ClientTimeout(total=None, connect=10)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30), timeout=timeout) as self.http:
            self.started = time.monotonic()
            watch = asyncio.create_task(self.watch())
            callers = [asyncio.create_task(self.caller(name, index, serve))
                       for name, spec in self.load.classes.items() for index in range(spec.callers)]
            await asyncio.sleep(seconds)
            self.over = True
            watch.cancel()
            # Everything stops before the session closes, so that the end of the run is no error.
            for task in callers + self.workers:
                task.cancel()
            # A client library may swallow the cancelling; then the next look at `over` ends the worker.
            await asyncio.wait(callers + self.workers, timeout=10)

    async def watch(self):
        """How late this process is run: on a machine that is too busy, nothing that is measured means anything."""
        while True:
            begun = self.now()
            await asyncio.sleep(0.02)
            self.lags.append(self.now() - begun - 0.02)

    def lag(self):
        """99th percentile of it, in milliseconds."""
        lags = sorted(self.lags)
        return round(lags[int(len(lags) * 0.99)] * 1000, 1) if lags else 0.0

    async def caller(self, name, index, serve):
        caller = Caller(self.load, name, index, self.seed)
        await asyncio.sleep(caller.first)
        while True:
            job = caller.next()
            job.born = self.now()
            self.jobs.append(job)
            await serve(job)
            await asyncio.sleep(caller.think())


class Slots:
    """A pool of worker slots over one queue. A job that is refused gives its slot back and is due again at its time."""

    def __init__(self, driver):
        self.driver = driver
        self.queue = []
        self.order = itertools.count()
        self.changed = asyncio.Event()

    async def serve(self, job):
        done = asyncio.get_running_loop().create_future()
        self.put(self.driver.now(), job, done)
        await done

    def put(self, due, job, done):
        heapq.heappush(self.queue, (due, next(self.order), job, done))
        self.changed.set()

    def start(self):
        self.driver.workers = [asyncio.create_task(self.work()) for _ in range(SLOTS)]

    async def due(self):
        while True:
            wait = self.queue[0][0] - self.driver.now() if self.queue else 3600
            if wait <= 0:
                return heapq.heappop(self.queue)
            self.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.changed.wait()

    async def work(self):
        driver = self.driver
        while not driver.over:
            _, _, job, done = await self.due()
            while not driver.over:
                try:
                    await driver.try_once(job)
                    if not done.done():
                        done.set_result(None)
                    break
                except Refused as refused:
                    wait = driver.wait_of(job, refused)
                    if not driver.hold_slot:
                        self.put(driver.now() + wait, job, done)
                        break
                    await asyncio.sleep(wait)
                    job.held += wait
