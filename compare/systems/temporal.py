"""Temporal: every call is an activity of a workflow of its own, on one task queue with the common number of slots."""

import asyncio
import contextlib
import datetime
import logging
import uuid

from harness.processes import Process, answers, free_port, wait_until
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from .base import PATH, ROOT, System
from driver import Refused
from loads import SLOTS

# Every refusal is a failed activity, and the SDK writes a traceback for each.
logging.getLogger("temporalio").setLevel(logging.CRITICAL)

# The matcher with priorities and fairness. One partition, as few calls on the usual four are shared out less evenly (Jain 0.97).
DYNAMIC = ["matching.useNewMatcher=true", "matching.enableFairness=true", "matching.numTaskqueueReadPartitions=1",
           "matching.numTaskqueueWritePartitions=1"]


@workflow.defn
class OneCall:
    """Runs the activity `call` for one job, with the keys it is given."""

    @workflow.run
    async def run(self, number: int, priority: int, key: str, weight: float) -> None:
        await workflow.execute_activity(
            "call", number, start_to_close_timeout=datetime.timedelta(seconds=120),
            priority=Priority(priority_key=priority or None, fairness_key=key or None, fairness_weight=weight or None),
            retry_policy=RetryPolicy(initial_interval=datetime.timedelta(seconds=0.5), maximum_interval=datetime.timedelta(seconds=8)))


@contextlib.contextmanager
def dev_server():
    """A development server of its own; yields its address."""
    port = free_port()
    command = [ROOT / "compare/.venv/bin/temporal", "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port,
               "--http-port", free_port(), "--log-level", "error"]
    for value in DYNAMIC:
        command += ["--dynamic-config-value", value]
    process = Process("temporal", command)
    process.start()
    try:
        wait_until(lambda: answers(port) or not process.alive(), 60, "Temporal")
        if not process.alive():
            raise RuntimeError(process.text()[-3000:])
        yield f"127.0.0.1:{port}"
    finally:
        process.stop()


class Activities:
    """Runs jobs as activities instead of in the driver's own slots."""

    temporal = True
    worker_options = {}
    queues = 1

    def keys(self, name):
        """Priority key, fairness key and fairness weight of a class; 0 and "" mean none."""
        return 0, "", 0.0

    @contextlib.asynccontextmanager
    async def serving(self, driver, address):
        for attempt in range(60):
            try:
                client = await Client.connect(address)
                break
            except RuntimeError:
                if attempt == 59:
                    raise
                await asyncio.sleep(0.5)
        name = f"calls-{uuid.uuid4()}"
        jobs = {}

        @activity.defn(name="call")
        async def call(number: int) -> None:
            job = jobs[number]
            try:
                await driver.try_once(job)
            except Refused as refused:
                # A refused call gives its slot back and waits on a timer of the server.
                delay = datetime.timedelta(seconds=refused.wait) if driver.obey and refused.wait is not None else None
                raise ApplicationError("refused", next_retry_delay=delay) from None

        async def serve(job):
            jobs[job.number] = job
            # All calls of a caller go through one queue.
            queue = f"{name}-{job.number // 1000 % self.queues}"
            await client.execute_workflow(
                OneCall.run, args=[job.number, *self.keys(job.name)], id=f"{name}-{job.number}", task_queue=queue)

        async with contextlib.AsyncExitStack() as stack:
            for number in range(self.queues):
                await stack.enter_async_context(Worker(
                    client, task_queue=f"{name}-{number}", workflows=[OneCall], activities=[call],
                    max_concurrent_activities=SLOTS // self.queues, workflow_runner=UnsandboxedWorkflowRunner(),
                    max_concurrent_workflow_tasks=50, **self.worker_options))
            yield serve


class TemporalRate(Activities, System):
    name, title, told = "temporal-rate", "Temporal, task-queue rate limit", "request cap, mean cost"

    @property
    def worker_options(self):
        return {"max_task_queue_activities_per_second": self.load.told_rpm() / 60}

    def config(self):
        return "max_task_queue_activities_per_second=10\nmax_concurrent_activities=30\nRetryPolicy(initial_interval=0.5 s)\n"

    async def start(self, stack, provider_port):
        return {"url": f"http://127.0.0.1:{provider_port}{PATH}"}


class TemporalPriority(TemporalRate):
    name, title = "temporal-priority", "Temporal, rate limit and priority keys"

    def keys(self, name):
        return {"high": 1, "normal": 3, "low": 5}[name], "", 0.0

    def config(self):
        return super().config() + "Priority(priority_key=KEYS[class])\nKEYS = {'high': 1, 'normal': 3, 'low': 5}\n"


class TemporalFairness(TemporalRate):
    name, title = "temporal-fairness", "Temporal, rate limit and fairness keys"

    def keys(self, name):
        return 0, name, float(self.load.classes[name].weight)

    def config(self):
        return super().config() + "Priority(fairness_key=class, fairness_weight=WEIGHTS[class])\nWEIGHTS = {'high': 4, 'normal': 2, 'low': 1}\n" \
            + "\n".join(DYNAMIC) + "\n"


class TemporalTwoQueues(TemporalFairness):
    """Two teams with a queue each, both told the whole rate: neither knows of the other. Not in the tables."""

    name, title = "temporal-two-queues", "Temporal, fairness keys, two task queues"
    queues = 2
