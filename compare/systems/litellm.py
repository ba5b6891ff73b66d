"""LiteLLM proxy. `priority_reservation` is a feature of its licensed edition and is not compared; what is free is:

- `rpm` and `tpm` of the deployment, with the router's priority queue (`priority` in the body);
- limits of their own for the key of each class, a fixed split.
"""

import yaml

from harness.processes import Process, answers, free_port, wait_until

from .base import PATH, ROOT, System

AUTH = '''\
"""Keys without a database: the bearer is the name of a class."""
from litellm.proxy._types import UserAPIKeyAuth

LIMITS = {limits!r}


async def auth(request, api_key):
    name = api_key.removeprefix("sk-")
    return UserAPIKeyAuth(api_key="hash-" + name, **LIMITS.get(name, {{}}))
'''

PRIORITY = {"high": 0, "normal": 1, "low": 2}


class LiteLlm(System):
    name, title, told = "litellm", "LiteLLM, rpm and tpm, request priority", "both caps"
    environment = {}
    # Its counters are those of a minute, and a part of a minute would show anything.
    seconds = 72.0

    def limits(self):
        return {}

    def document(self, provider_port, redis_port):
        return {
            "model_list": [{"model_name": "m-chat", "litellm_params": {
                "model": "openai/m-chat", "api_base": f"http://127.0.0.1:{provider_port}/v1", "api_key": "none", **self.deployment()}}],
            "router_settings": {
                "routing_strategy": "usage-based-routing-v2", "enable_pre_call_checks": True, "num_retries": 0, "disable_cooldowns": True,
                "redis_host": "127.0.0.1", "redis_port": redis_port},
            "litellm_settings": {"num_retries": 0, "cache": True, "cache_params": {
                "type": "redis", "host": "127.0.0.1", "port": redis_port, "supported_call_types": []}},
            "general_settings": {"master_key": "sk-master-of-a-test-only", "custom_auth": "keys.auth", "forward_client_headers_to_llm_api": True},
        }

    def deployment(self):
        return {"rpm": self.load.rpm, "tpm": self.load.tpm}

    def config(self):
        return yaml.safe_dump(self.document(9000, 6379), sort_keys=False) + AUTH.format(limits=self.limits())

    def members(self, job):
        return {"priority": PRIORITY[job.name]}

    async def start(self, stack, provider_port):
        redis_port, port = free_port(), free_port()
        store = Process("redis", ["redis-server", "--port", redis_port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        stack.callback(store.stop)
        store.start()
        process = Process("litellm", [])
        directory = process.directory
        (directory / "config.yaml").write_text(yaml.safe_dump(self.document(provider_port, redis_port)))
        (directory / "keys.py").write_text(AUTH.format(limits=self.limits()))
        process.command = [
            "env", "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", "NO_DOCS=True", f"PYTHONPATH={directory}",
            *[f"{name}={value}" for name, value in self.environment.items()],
            str(ROOT / "compare/.venv-litellm/bin/litellm"), "--config", str(directory / "config.yaml"), "--host", "127.0.0.1",
            "--port", str(port), "--telemetry", "False", "--num_workers", "1"]
        stack.callback(process.stop)
        process.start()

        def ready():
            if not process.alive():
                raise RuntimeError(process.text()[-3000:])
            return answers(port)

        wait_until(ready, 180, "LiteLLM")
        # Its own retry-after is always a whole window, which leaves the cap idle: callers back off instead.
        return {"url": f"http://127.0.0.1:{port}{PATH}", "members": self.members,
                "extra": lambda job: {"authorization": f"Bearer sk-{job.name}"}}


class LiteLlmKeys(LiteLlm):
    """Its window is shortened from 60 s to 10 s: with 60 s everything is used up at the start of each minute."""

    name, title, told = "litellm-keys", "LiteLLM, limits per key", "both caps, number of classes"
    environment = {"LITELLM_RATE_LIMIT_WINDOW_SIZE": 10}
    seconds = System.seconds

    def limits(self):
        weights = sum(one.weight for one in self.load.classes.values())
        part = {name: one.weight / weights / 6 for name, one in self.load.classes.items()}
        return {name: {"rpm_limit": max(1, round(self.load.rpm * share)), "tpm_limit": round(self.load.tpm * share)}
                for name, share in part.items()}

    def deployment(self):
        return {}

    def members(self, job):
        return {}
