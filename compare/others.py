"""Callers past the system under test, who share the provider's account: they take half of the binding limit."""

import asyncio
import json
import time

import aiohttp


async def take_half(load, url, begin, until):
    """Returns `(time, amount)` of every call that was served. A refused call is sent again shortly after."""
    cost = 500
    rate = load.limit(load.binding) / 2 / load.amount(load.binding, cost) / 60
    taken, started, due = [], time.monotonic(), begin
    body = json.dumps({"model": "m-chat", "messages": [{"role": "user", "content": " ".join(["knot"] * (cost // 2))}]})
    headers = {"content-type": "application/json", "x-tenant": "others", "x-mock": f"output={cost // 2}"}

    async def one(http):
        while time.monotonic() - started < until:
            async with http.post(url, data=body, headers=headers) as response:
                await response.read()
                if response.status == 200:
                    taken.append((time.monotonic() - started, load.amount(load.binding, cost)))
                    return
            await asyncio.sleep(0.1)

    async with aiohttp.ClientSession() as http:
        calls = set()
        while time.monotonic() - started < until:
            await asyncio.sleep(max(0.0, due - (time.monotonic() - started)))
            # No more than these wait, so that what they miss is not made up for later.
            if sum(not call.done() for call in calls) < 5:
                calls.add(asyncio.create_task(one(http)))
            due += 1 / rate
        for call in calls:
            call.cancel()
    return taken
