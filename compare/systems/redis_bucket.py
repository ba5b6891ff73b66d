"""The usual recipe with Redis: a token bucket per limit in one script, which callers run before each call.

In its strongest form: requests and LLM tokens in one atomic step, priced as characters / 4 plus `max_tokens`, and corrected by what
the answer says. Everybody has the same buckets.
"""

import redis.asyncio
from harness.processes import Process, answers, free_port, wait_until

from .base import PATH, System
from driver import text
from loads import PROVIDER_BURST_S

SCRIPT = """\
local now = redis.call('TIME')
now = now[1] + now[2] / 1e6
local wait, levels = 0, {}
for i, key in ipairs(KEYS) do
  local rate, size, cost = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  local kept = redis.call('HMGET', key, 'level', 'at')
  levels[i] = math.min(size, (tonumber(kept[1]) or size) + (now - (tonumber(kept[2]) or now)) * rate)
  wait = math.max(wait, (math.min(cost, size) - levels[i]) / rate)
end
for i, key in ipairs(KEYS) do
  local taken = wait > 0 and 0 or tonumber(ARGV[3 * i])
  redis.call('HSET', key, 'level', levels[i] - taken, 'at', now)
  redis.call('EXPIRE', key, 120)
end
return tostring(wait)
"""


class RedisBucket(System):
    name, title, told = "redis", "Redis token bucket", "both caps"

    def config(self):
        return SCRIPT + "await client.hincrbyfloat('tpm', 'level', charged - usage)\nwait = await script(keys=['rpm', 'tpm'], args=[rpm / 60, rpm / 6, 1, tpm / 60, tpm / 6, chars / 4 + max_tokens])\n"

    async def start(self, stack, provider_port):
        port = free_port()
        process = Process("redis", ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        stack.callback(process.stop)
        process.start()
        wait_until(lambda: answers(port), 20, "Redis")
        client = redis.asyncio.Redis(port=port)
        stack.push_async_callback(client.aclose)
        script = client.register_script(SCRIPT)
        load = self.load

        charged = {}

        async def before(job):
            charged[job.number] = len(text(job.prompt)) / 4 + job.max_tokens
            args = []
            for limit, amount in ((load.rpm, 1), (load.tpm, charged[job.number])):
                args += [limit / 60, limit * PROVIDER_BURST_S / 60, amount]
            wait = float(await script(keys=["rpm", "tpm"], args=args))
            return wait if wait > 0 else None

        async def after(job):
            await client.hincrbyfloat("tpm", "level", charged[job.number] - job.cost)

        return {"url": f"http://127.0.0.1:{provider_port}{PATH}", "before": before, "after": after}
