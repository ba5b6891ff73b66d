"""The loads: who calls how much, against which caps. The same seed gives every system the same calls.

All are closed loops. A caller thinks, asks, waits until it is served, and thinks again; so each class wants a fixed rate when
nothing stops it, the waits do not grow with the length of the run, and "offered" is the rate that all would reach unlimited.
"""

import dataclasses
import random

# A served call takes 0.3 to 0.5 s at the provider; a caller thinks 3.2 s on average. So a caller wants 1 call in 3.6 s.
SERVICE_S = (0.3, 0.5)
THINK_S = (2.6, 3.8)
CYCLE_S = sum(SERVICE_S) / 2 + sum(THINK_S) / 2

# Worker slots: what runs calls, whatever their class. A refused call gives its slot back until it is due again.
SLOTS = 16

# Seconds' worth that the provider lets through at once after idling.
PROVIDER_BURST_S = 10


@dataclasses.dataclass(frozen=True)
class Class:
    """One priority class. `prompt` and `output` are means, drawn between half and one and a half of them when `spread`."""

    weight: int
    callers: int
    prompt: int = 300
    output: int = 200
    spread: bool = True

    @property
    def cost(self):
        return self.prompt + self.output


@dataclasses.dataclass(frozen=True)
class Load:
    """`binding`: the resource that limits. `others_at`: when callers outside begin to use half of the cap, in seconds."""

    title: str
    rpm: int
    tpm: int
    binding: str
    classes: dict
    others_at: float = None

    def limit(self, resource):
        return self.rpm if resource == "requests" else self.tpm

    def amount(self, resource, llm_tokens):
        return 1 if resource == "requests" else llm_tokens

    def wanted(self, name):
        """What a class would use of the binding limit if nothing stopped it, as a part of the limit."""
        one = self.classes[name]
        return one.callers * 60 / CYCLE_S * self.amount(self.binding, one.cost) / self.limit(self.binding)

    def offered(self):
        return sum(self.wanted(name) for name in self.classes)

    def entitled(self):
        """Weighted max-min parts of the binding limit: nobody is entitled to more than it wants, and what it leaves goes to the others."""
        left, open_, parts = 1.0, dict(self.classes), {}
        while open_:
            unit = left / sum(one.weight for one in open_.values())
            small = {name for name, one in open_.items() if self.wanted(name) <= unit * one.weight}
            if not small:
                return {**parts, **{name: unit * one.weight for name, one in open_.items()}}
            for name in small:
                parts[name] = self.wanted(name)
                left -= parts[name]
                del open_[name]
        return parts

    def mean_cost(self):
        """LLM tokens of a mean call when everybody has what it is entitled to: what somebody who counts calls has to be told."""
        rates = {name: part / self.amount(self.binding, self.classes[name].cost) for name, part in self.entitled().items()}
        return sum(rate * self.classes[name].cost for name, rate in rates.items()) / sum(rates.values())

    def told_rpm(self):
        """Calls a minute that the caps allow at that mean cost."""
        return min(self.rpm, self.tpm / self.mean_cost())


def classes(high, normal, low, weights=(4, 2, 1)):
    return {name: dataclasses.replace(one, weight=weight)
            for name, one, weight in zip(("high", "normal", "low"), (high, normal, low), weights)}


EQUAL = classes(Class(1, 15), Class(1, 15), Class(1, 15))
SAME = classes(*[Class(1, 15, spread=False)] * 3)

LOADS = {
    "requests": Load("request-bound, equal cost", 300, 450_000, "requests", SAME),
    "tokens": Load("token-bound, equal mean cost", 450, 150_000, "tokens", EQUAL),
    "unequal": Load("token-bound, unequal cost", 600, 150_000, "tokens", classes(
        Class(1, 25, 180, 120), Class(1, 12, 360, 240), Class(1, 8, 540, 360))),
    "uneven": Load("token-bound, equal weights, uneven demand", 450, 150_000, "tokens", classes(
        Class(1, 9), Class(1, 14), Class(1, 22), weights=(1, 1, 1))),
    "below": Load("request-bound, high class below its share", 300, 450_000, "requests", classes(
        *[Class(1, callers, spread=False) for callers in (4, 19, 22)])),
    "halved": Load("token-bound, half of the cap taken by others in mid-run", 450, 150_000, "tokens", EQUAL, others_at=30.0),
}


@dataclasses.dataclass
class Job:
    """One call from its first try to its admission. Times are seconds since the start of the run."""

    number: int
    name: str
    prompt: int
    output: int
    max_tokens: int
    service: float
    born: float = 0.0
    admitted: float = None
    tries: int = 0
    refusals: int = 0
    errors: int = 0
    held: float = 0.0
    backoff: float = 0.5

    @property
    def cost(self):
        return self.prompt + self.output


class Caller:
    """Draws what one caller asks, one call after the other."""

    def __init__(self, load, name, index, seed):
        self.spec, self.name = load.classes[name], name
        self.random = random.Random(f"{seed}/{name}/{index}")
        self.base = (list(load.classes).index(name) * 1000 + index) * 1000
        self.first = self.random.uniform(0, CYCLE_S)

    def think(self):
        return self.random.uniform(*THINK_S)

    def next(self):
        self.base += 1
        spread = self.random.uniform(0.5, 1.5) if self.spec.spread else 1.0
        return Job(self.base, self.name, round(self.spec.prompt * spread), round(self.spec.output * spread),
                   2 * self.spec.output, self.random.uniform(*SERVICE_S))
