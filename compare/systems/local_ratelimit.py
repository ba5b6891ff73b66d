"""Envoy's own `local_ratelimit`: one bucket at the request cap, and a fixed bucket per class."""

import yaml

from harness import Envoy
from harness.envoy import HTTP_FILTERS

from .base import PATH, System
from loads import PROVIDER_BURST_S

ENABLED = {"default_value": {"numerator": 100}}


def bucket(calls_per_minute):
    """Filled several times a second, as a bucket should be: `tokens_per_fill` is whole."""
    return {"max_tokens": max(1, round(calls_per_minute * PROVIDER_BURST_S / 60)), "tokens_per_fill": 1,
            "fill_interval": f"{60 / calls_per_minute:.6f}s"}


class LocalRateLimit(System):
    name, title, told = "envoy", "Envoy local_ratelimit", "request cap"

    def filter(self):
        return {"name": "local", "typed_config": {
            "@type": f"{HTTP_FILTERS}.local_ratelimit.v3.LocalRateLimit", "stat_prefix": "local",
            "token_bucket": bucket(self.load.rpm), "filter_enabled": ENABLED, "filter_enforced": ENABLED}}

    def hcm(self):
        return {}

    def config(self):
        return yaml.safe_dump([self.filter(), *self.hcm().values()], sort_keys=False)

    async def start(self, stack, provider_port):
        envoy = Envoy(provider_port, [self.filter()], workers=2)
        for name, value in self.hcm().items():
            envoy.listeners["ingress"].hcm[name] = value
        stack.enter_context(envoy)
        return {"url": f"http://127.0.0.1:{envoy.port}{PATH}"}


class LocalRateLimitSplit(LocalRateLimit):
    name, title, told = "envoy-split", "Envoy local_ratelimit, split", "request cap, mean cost, number of classes"

    def filter(self):
        weights = sum(one.weight for one in self.load.classes.values())
        out = super().filter()
        out["typed_config"]["descriptors"] = [
            {"entries": [{"key": "class", "value": name}],
             "token_bucket": bucket(self.load.told_rpm() * one.weight / weights)} for name, one in self.load.classes.items()]
        # The bucket of calls without a class must refill in step with the others.
        out["typed_config"]["always_consume_default_token_bucket"] = False
        out["typed_config"]["rate_limits"] = [
            {"actions": [{"request_headers": {"header_name": "x-priority", "descriptor_key": "class"}}]}]
        return out
