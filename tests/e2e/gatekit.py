"""Configurations and calls that the tests share."""

import socket

from harness import call
from harness.client import chat
from harness.processes import wait_until

FREE = 10**9


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
