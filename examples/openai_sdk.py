"""Twenty calls at once through the OpenAI SDK, from two priority classes. The SDK does all the waiting."""

import asyncio
import os
import time

from openai import AsyncOpenAI

GATE = os.environ.get("GATE_URL", "http://127.0.0.1:10000")
START = time.monotonic()


async def ask(client, priority, number):
    answer = await client.chat.completions.create(
        model="m-chat",
        max_tokens=200,
        messages=[{"role": "user", "content": f"Name knot number {number}."}],
        extra_headers={"x-tenant": "acme", "x-priority": priority},
    )
    print(f"{time.monotonic() - START:5.1f} s  {priority:4}  call {number:2}  {answer.usage.total_tokens} tokens", flush=True)


async def main():
    # A refusal is an appointment, not an error: allow enough of them.
    client = AsyncOpenAI(base_url=f"{GATE}/v1", api_key="not needed by the mock provider", max_retries=8)
    await asyncio.gather(*(ask(client, priority, number) for number in range(10) for priority in ("high", "low")))


asyncio.run(main())
