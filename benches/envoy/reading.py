#!/usr/bin/env python3
"""How long the filter takes to read and price a request body of 1 MiB in real Envoy: `make bench-reading`.

Each body goes to a listener without the filter, to one that reads all of it, and to one that reads 4 KiB of it; printed
are medians of the whole call and the difference that reading makes. Over 5 ms is a failure.
"""

import base64
import http.client
import json
import pathlib
import random
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from harness import Envoy, Listener, Provider, wasm_filter  # noqa: E402

MIB = 1 << 20
ROUNDS = 40
LIMIT_MS = 5


class Roomy(Listener):
    def resource(self, name):
        return {**super().resource(name), "per_connection_buffer_limit_bytes": 4 * MIB}


def gate(body_limit_bytes):
    pool = {"name": "m-chat", "limits": {"tokens_per_minute": 1_000_000_000}, "max_wait_ms": 0}
    return wasm_filter({"pools": [pool], "body_limit_bytes": body_limit_bytes}, vm_id=f"reads-{body_limit_bytes}")


def chat(content, ascii_only=False):
    body = {"model": "m-chat", "messages": [{"role": "user", "content": content}]}
    return json.dumps(body, ensure_ascii=ascii_only).encode()


def bodies():
    def text(kind):
        sample = (ROOT / "tests" / "accuracy" / f"{kind}-0.txt").read_text()
        return (sample * (MIB // len(sample.encode()) + 1))[: MIB if sample.isascii() else MIB // 3]

    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(3).randbytes(3 * MIB // 4)).decode()
    yield "English prose", chat(text("en"))
    yield "Rust code, escaped line ends", chat(text("rust"))
    yield "JSON in a string", chat(text("json"))
    yield "Chinese", chat(text("zh"))
    yield "Chinese as \\u escapes", chat(text("zh")[: MIB // 6], True)
    yield "10 000 messages", json.dumps({"model": "m-chat", "messages": [
        {"role": "user", "content": "tie a knot and pass it on to the next one, please, before the tide turns"}] * 10_000}).encode()
    yield "picture as base64", chat([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + picture}}])


def main():
    slow = 0
    with Provider(fast=True) as provider:
        envoy = Envoy(provider.port, workers=1)
        envoy.listeners = {"none": Roomy([]), "whole": Roomy([gate(2 * MIB)]), "beginning": Roomy([gate(4096)])}
        with envoy:
            connections = {name: http.client.HTTPConnection("127.0.0.1", listener.port) for name, listener in envoy.listeners.items()}
            for name, body in bodies():
                times = {listener: [] for listener in connections}
                for _ in range(ROUNDS):
                    for listener, connection in connections.items():
                        started = time.perf_counter()
                        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                        response = connection.getresponse()
                        response.read()
                        times[listener].append(1_000 * (time.perf_counter() - started))
                        assert response.status == 200
                none, whole, beginning = (statistics.median(times[listener]) for listener in ("none", "whole", "beginning"))
                slow += whole - none > LIMIT_MS
                print(f"{name:30} {len(body) / MIB:4.2f} MiB   without the gate {none:5.2f} ms   reading all +{whole - none:5.2f} ms   "
                      f"reading 4 KiB +{beginning - none:5.2f} ms")
    return slow


if __name__ == "__main__":
    sys.exit(main())
