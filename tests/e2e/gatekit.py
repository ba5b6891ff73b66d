"""The gate under test, configurations and calls that the tests share."""

import copy
import itertools
import json
import socket

from harness import Listener, call, wasm_filter
from harness.client import chat
from harness.processes import wait_until

FREE = 10**9


class Gate:
    """The filter on a listener of its own in a running Envoy, with pools of its own.

    `config`: a dictionary. `as_struct`: given as a Struct instead of text. `before`, `after`: other HTTP filters around
    it. `shows_bodies`: the host's flag for held headers, where it is not what the configuration says. Further options as of
    `Listener`.
    """

    _numbers = itertools.count(1)

    def __init__(self, envoy, config, as_struct=False, module=None, before=(), after=(), shows_bodies=None, **listener):
        self.envoy = envoy
        self.name = f"gate-{next(self._numbers)}"
        self.as_struct, self.module, self.before, self.after = as_struct, module, before, after
        self.shows_bodies = shows_bodies
        self.access_log = envoy.process.directory / f"{self.name}.log"
        self.listener = Listener(self._filters(config), access_log=self.access_log, **listener)
        self.port = self.listener.port
        self._log_start = len(envoy.log())
        self._baseline = {}

    def __enter__(self):
        self._baseline = self.envoy.prometheus("backpressure_")
        assert self.envoy.put(self.name, self.listener), "refused at load:\n" + self.log()
        return self

    def __exit__(self, *_):
        self.envoy.remove(self.name)

    def pool(self, name="m-chat"):
        """The pool's name in Envoy: as written in the test, made unique."""
        return f"{name}-{self.name}"

    def _filters(self, config):
        hold_headers = True
        if isinstance(config, dict):
            hold_headers = config.get("hold_headers", True)
            config = copy.deepcopy(config)
            for pool in config["pools"]:
                pool["name"] = self.pool(pool["name"])
        if self.shows_bodies is not None:
            hold_headers = self.shows_bodies
        ours = wasm_filter(config, module=self.module, hold_headers=hold_headers, as_struct=self.as_struct)
        return [*self.before, ours, *self.after]

    def reload(self, config):
        """Puts another configuration in place. True: accepted; False: refused, and the old one stays."""
        fresh = Listener(self._filters(config), self.listener.hcm, self.listener.cluster, self.listener.trailers, self.port,
                         self.access_log)
        accepted = self.envoy.put(self.name, fresh)
        if accepted:
            self.listener = fresh
        return accepted

    def samples(self, name):
        """Samples of one filter metric since this gate opened, other gates' pools left out: labels -> value."""
        sample = f"backpressure_{name}"
        out = {}
        for (found, labels), value in self.envoy.prometheus(sample).items():
            pool = dict(labels).get("pool")
            if found == sample and (pool is None or pool.endswith(f"-{self.name}")):
                out[labels] = value - self._baseline.get((found, labels), 0)
        return out

    def metric(self, name, **labels):
        """Sum over all samples that carry these labels."""
        return sum(value for found, value in self.samples(name).items() if labels.items() <= dict(found).items())

    def log(self):
        """What Envoy logged since this gate opened."""
        return self.envoy.log()[self._log_start:]

    def access_entries(self):
        """The access log so far, parsed; it is written with some delay."""
        if not self.access_log.exists():
            return []
        return [json.loads(line) for line in self.access_log.read_text().splitlines() if line.startswith("{")]


def config(limits, top=None, **pool):
    """One pool for everything: a plain sliding window, no parking, the whole declared output reserved."""
    plain = {
        "name": "m-chat",
        "limits": limits,
        "strict_window": True,
        "burst_seconds": 60,
        "output_reserve": "max_tokens",
        "max_wait_ms": 0,
    }
    return {
        "identity": {"tenant": [{"header": "x-tenant"}], "class": [{"header": "x-priority"}]},
        "classes": {"high": {"weight": 4}, "normal": {"weight": 2}, "low": {"weight": 1}},
        "default_class": "normal",
        "tenants": {"acme": {"weight": 3}, "beta": {"weight": 1}},
        "pools": [{**plain, **pool}],
        **(top or {}),
    }


def send(envoy, content="tie a knot", output=None, mock="", headers=None, path="/v1/chat/completions", **members):
    """One call whose answer has `output` LLM tokens, declared as its cap."""
    orders = [mock] if mock else []
    if output is not None:
        members.setdefault("max_tokens", output)
        orders.append(f"output={output}")
    headers = {**({"x-mock": ",".join(orders)} if orders else {}), **(headers or {})}
    return call(envoy.port, chat(content, **members), path=path, headers=headers)


def statuses(replies):
    """How many of each status, e.g. `{200: 10, 429: 90}`."""
    out = {}
    for reply in replies:
        out[reply.status] = out.get(reply.status, 0) + 1
    return out


def eventually(condition, seconds=8, what="condition"):
    return wait_until(condition, seconds, what)


def settled(envoy, kind, amount=1):
    """Waits until at least `amount` LLM tokens of a kind are accounted, and returns them."""
    return eventually(lambda: (lambda found: found if found >= amount else 0)(envoy.metric("tokens", kind=kind)),
                      what=f"settled {kind}")


class Raw:
    """A bare connection for what an HTTP library would not do."""

    def __init__(self, envoy, timeout=15):
        self.socket = socket.create_connection(("127.0.0.1", envoy.port), timeout=timeout)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def until(self, mark, count=1):
        """Reads until the mark was received `count` times; fails at the end of the connection."""
        while self.received.count(mark) < count:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(f"connection ended before {mark!r}: {self.received[-500:]!r}")
            self.received += data
        return self.received


def head(path="/v1/chat/completions", method="POST", **headers):
    """A request head for `Raw`."""
    lines = [f"{method} {path} HTTP/1.1", "host: llm.test"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
