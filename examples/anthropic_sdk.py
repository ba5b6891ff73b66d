"""Twelve streams at once through the Anthropic SDK. The SDK does all the waiting."""

import asyncio
import os
import time

from anthropic import AsyncAnthropic

GATE = os.environ.get("GATE_URL", "http://127.0.0.1:10000")
START = time.monotonic()


async def ask(client, number):
    async with client.messages.stream(
        model="m-chat",
        max_tokens=200,
        messages=[{"role": "user", "content": f"Name knot number {number}."}],
        extra_headers={"x-tenant": "beta"},
    ) as stream:
        message = await stream.get_final_message()
    print(f"{time.monotonic() - START:5.1f} s  call {number:2}  {message.usage.output_tokens} output tokens", flush=True)


async def main():
    client = AsyncAnthropic(base_url=GATE, api_key="not needed by the mock provider", max_retries=8)
    await asyncio.gather(*(ask(client, number) for number in range(12)))


asyncio.run(main())
