"""The systems under comparison, by name, in the order of the tables."""

from .base import Naive
from .gate import Gate, GateMistold, GateUnderTemporal
from .litellm import LiteLlm, LiteLlmKeys
from .local_ratelimit import LocalRateLimit, LocalRateLimitSplit
from .nginx import Nginx
from .redis_bucket import RedisBucket
from .temporal import TemporalFairness, TemporalPriority, TemporalRate, TemporalTwoQueues

ALL = [Naive, Nginx, LocalRateLimit, LocalRateLimitSplit, RedisBucket, LiteLlm, LiteLlmKeys, TemporalRate, TemporalPriority,
       TemporalFairness, GateMistold, Gate, GateUnderTemporal]
# One more to run by name.
SYSTEMS = {one.name: one for one in [*ALL, TemporalTwoQueues]}
