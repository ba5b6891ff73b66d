"""A simulated vLLM server: `SEQUENCES` calls at once, first come, first served, and 503 when as many wait as it has room for."""

import asyncio
import random

from aiohttp import web

SEQUENCES = 5
LENGTH_S = (0.5, 2.0)
PIECES = 10


class Vllm:
    """`queue`: room of its own queue. `samples`: (running, waiting) whenever either changes, with the time."""

    def __init__(self, queue, clock, seed=1):
        self.queue, self.clock = queue, clock
        self.running = self.waiting = self.refused = self.aborted = 0
        self.samples = []
        self.slots = asyncio.Semaphore(SEQUENCES)
        self.random = random.Random(seed)
        self.runner = None
        self.port = None

    def sample(self, running=0, waiting=0):
        self.running += running
        self.waiting += waiting
        self.samples.append((self.clock(), self.running, self.waiting))

    async def answer(self, request):
        await request.read()
        length = self.random.uniform(*LENGTH_S)
        if self.waiting >= self.queue and self.slots.locked():
            self.refused += 1
            return web.json_response({"error": {"message": "queue is full"}}, status=503)
        self.sample(waiting=1)
        try:
            await self.slots.acquire()
        finally:
            self.sample(waiting=-1)
        self.sample(running=1)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        try:
            await response.prepare(request)
            for number in range(PIECES):
                await asyncio.sleep(length / PIECES)
                await response.write(b'data: {"choices":[{"index":0,"delta":{"content":"knot %d "}}]}\n\n' % number)
            await response.write(b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":10}}\n\ndata: [DONE]\n\n')
            return response
        except (ConnectionError, asyncio.CancelledError):
            self.aborted += 1
            raise
        finally:
            self.slots.release()
            self.sample(running=-1)

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        # A client that goes away ends its call, as in the real server.
        self.runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()
