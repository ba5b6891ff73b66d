"""Callers in a closed loop with an official Python client as it comes: `callers.py openai|anthropic PORT OPTIONS`.

Prints one line of JSON: calls that succeeded, and the failed ones by error.
"""

import asyncio
import collections
import json
import random
import sys
import time

HOST = "http://127.0.0.1"


def openai_call(port, headers):
    import openai

    client = openai.AsyncOpenAI(base_url=f"{HOST}:{port}/v1", api_key="sk-test", default_headers=headers)

    async def call(text):
        answer = await client.chat.completions.create(model="m-chat", messages=[{"role": "user", "content": text}])
        assert answer.choices[0].message.content
    return call


def anthropic_call(port, headers):
    import anthropic

    client = anthropic.AsyncAnthropic(base_url=f"{HOST}:{port}", api_key="sk-test", default_headers=headers)

    async def call(text):
        answer = await client.messages.create(model="m-chat", max_tokens=100, messages=[{"role": "user", "content": text}])
        assert answer.content[0].text
    return call


async def caller(number, call, options, outcome):
    draw = random.Random(number)
    end = time.monotonic() + options["seconds"]
    await asyncio.sleep(draw.uniform(0, options["think"]))
    count = 0
    while time.monotonic() < end:
        began = time.monotonic()
        count += 1
        try:
            await call(f"caller {number} asks for the {count}. time")
            outcome["ok"] += 1
            outcome["longest"] = max(outcome["longest"], time.monotonic() - began)
        except Exception as error:
            outcome["failed"][type(error).__name__] += 1
        await asyncio.sleep(options["think"] * draw.uniform(0.9, 1.1))


async def main(kind, port, options):
    headers = {"x-tenant": f"python-{kind}"}
    call = {"openai": openai_call, "anthropic": anthropic_call}[kind](port, headers)
    outcome = {"ok": 0, "failed": collections.Counter(), "longest": 0.0}
    await asyncio.gather(*(caller(number, call, options, outcome) for number in range(options["callers"])))
    print(json.dumps(outcome))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])))
