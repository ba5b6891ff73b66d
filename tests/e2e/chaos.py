"""A TCP server between Envoy and the provider that fails on demand, and clients that go away."""

import asyncio
import random
import struct
import socket
import threading

from harness import free_port

GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    b"HTTP/1.1 999 \xff\xfe\r\ncontent-length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 30\r\n\r\n{\"usage\":{\"prompt_tokens\":\xff\xfe1e9",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 12\r\n\r\n\x1f\x8b\x08garbage!!",
    b"HTTP/1.1 429 Too Many\r\nretry-after: 99999999999999999999\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx-ratelimit-remaining-tokens: 18446744073709551616\r\ncontent-length: 2\r\n\r\n{}",
]


class Chaos:
    """Forwards to `target`. `mode`: pass, down, slow, reset or garbage; from the next connection on."""

    def __init__(self, target):
        self.target, self.mode, self.port = target, "pass", free_port()
        self._random = random.Random(5)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=4096), self._loop).result(5)
        return self

    def __exit__(self, *_):
        async def cancel():
            running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _serve(self, reader, writer):
        mode = self.mode
        try:
            if mode == "pass":
                await self._pass(reader, writer, 0)
            elif mode == "slow":
                await self._pass(reader, writer, 1.5)
            elif mode == "garbage":
                await reader.read(65536)
                writer.write(self._random.choice(GARBAGE))
                await writer.drain()
            elif mode == "reset":
                # In the middle of an answer half of the time.
                await reader.read(65536)
                if self._random.random() < 0.5:
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"half")
                    await writer.drain()
                abort(writer)
        except OSError:
            pass
        finally:
            writer.close()

    async def _pass(self, reader, writer, delay):
        await asyncio.sleep(delay)
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.target)

        async def pump(source, sink):
            try:
                while self.mode in ("pass", "slow") and (data := await source.read(65536)):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))


def abort(writer):
    """Ends a connection by a reset instead of an end."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def cancelling_clients(port, count, seconds, seed=1):
    """So many clients begin a streaming call and go away at a random moment. How many saw which status before."""
    draw = random.Random(seed)
    body = b'{"model":"m-chat","stream":true,"max_tokens":200,"messages":[{"role":"user","content":"tie a knot"}]}'
    seen = {}

    async def one(number, start, stay):
        await asyncio.sleep(start)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            request = (f"POST /v1/chat/completions HTTP/1.1\r\nhost: llm.test\r\nx-tenant: t-{number % 7}\r\n"
                       f"x-mock: output=60,chunks=20,chunk_ms=100\r\ncontent-length: {len(body)}\r\n\r\n").encode()
            # Some go before their body has come.
            writer.write(request + body[:number % (len(body) * 4)])
            data = await asyncio.wait_for(reader.read(65536), stay)
            status = data.split(b" ", 2)[1].decode() if data else "closed"
            seen[status] = seen.get(status, 0) + 1
            await asyncio.sleep(stay / 2)
        except (TimeoutError, OSError):
            seen["nothing"] = seen.get("nothing", 0) + 1
        finally:
            abort(writer)

    async def everybody():
        await asyncio.gather(*(one(n, draw.random() * seconds / 2, draw.random() * seconds / 2) for n in range(count)))

    asyncio.run(everybody())
    return seen
