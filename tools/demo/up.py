"""Leaves the mock provider and Envoy with `envoy/envoy.yaml` and a status page running until interrupted: `make up`."""

import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.paths import ROOT, envoy_path, module_path, tool_path
from harness.processes import answers, wait_until

GATE, ADMIN, PROVIDER = 10000, 9901, 9000
STATUS = "/backpressure"

TEXT = f"""\
  gate       http://127.0.0.1:{GATE}   60 requests and 10,000 tokens a minute for model m-chat
  status     http://127.0.0.1:{GATE}{STATUS}   who waits, who gets what; open it in a browser
  admin      http://127.0.0.1:{ADMIN}    metrics: /stats/prometheus
  provider   http://127.0.0.1:{PROVIDER}    the same caps of its own; /stats tells what arrived

  curl -i http://127.0.0.1:{GATE}/v1/chat/completions -H 'x-tenant: acme' -H 'x-priority: high' \\
       -d '{{"model": "m-chat", "max_tokens": 200, "messages": [{{"role": "user", "content": "Name two knots."}}]}}'
  curl -i http://127.0.0.1:{GATE}/v1/messages -H 'x-tenant: beta' \\
       -d '{{"model": "m-chat", "max_tokens": 9000, "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'
  curl -s http://127.0.0.1:{ADMIN}/stats/prometheus | grep ^backpressure_

Ctrl-C ends both."""


def bootstrap():
    """The minimal file, with the status page switched on."""
    text, place = (ROOT / "envoy" / "envoy.yaml").read_text(), '"default_class": "normal",'
    assert place in text
    return text.replace(place, f'{place} "status_path": "{STATUS}",')


def stop(*_):
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGTERM, stop)
    for port in (GATE, ADMIN, PROVIDER):
        if answers(port):
            sys.exit(f"port {port} is taken")
    module_path("backpressure")
    children = []
    try:
        children.append(subprocess.Popen(
            [tool_path("mock-provider"), "--port", str(PROVIDER), "--rpm", "60", "--tpm", "10000"], cwd=ROOT))
        children.append(subprocess.Popen(
            [envoy_path(), "--config-yaml", bootstrap(), "--concurrency", "2", "--disable-hot-restart", "--log-level", "warning"],
            cwd=ROOT))
        wait_until(lambda: answers(GATE) or any(child.poll() is not None for child in children), 30, "Envoy")
        if all(child.poll() is None for child in children):
            print(TEXT, flush=True)
        while all(child.poll() is None for child in children):
            time.sleep(0.3)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
