"""The Envoy files in `envoy/` are what Envoy and the filter accept, and work when they run."""

import base64
import concurrent.futures
import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request

import pytest
import yaml
from conftest import ENVOY_FILES, ROOT, check_envoy, documents, wasm_configs
from harness.paths import envoy_path
from harness.processes import Process, answers, free_port, wait_until
from harness.provider import Provider

LABELS = ["pool", "class", "tenant", "decision", "kind", "reason", "resource"]


@pytest.mark.parametrize("path", ENVOY_FILES, ids=lambda path: path.stem)
def test_envoy_and_the_filter_accept_it(path):
    assert check_envoy(path.read_text(), path.stem) == ""


def test_a_configuration_that_means_nothing_is_not_accepted():
    text = (ROOT / "envoy" / "envoy.yaml").read_text().replace('"requests_per_minute": 60', '"requests_per_minute": 0')
    told = check_envoy(text, "bad")
    assert "/pools/0/limits/requests_per_minute" in told
    # One of two: what the installation page says of the command.
    assert check_envoy(text.replace('"default_class": "normal"', '"default_class": 1'), "worse").count("configuration refused") == 1


def test_envoy_and_the_filter_accept_the_filter_that_the_readme_shows():
    snippet = (ROOT / "README.md").read_text().split("```yaml\n")[1].split("```")[0]
    (document,) = documents(ROOT / "envoy" / "envoy.yaml")
    manager = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    manager.update(yaml.safe_load(snippet))
    (plugin,) = wasm_configs(document)
    plugin["vm_config"]["code"]["local"]["filename"] = "target/backpressure.wasm"
    assert check_envoy(json.dumps(document), "readme") == ""


@pytest.mark.parametrize("path", ENVOY_FILES, ids=lambda path: path.stem)
def test_it_reloads_holds_headers_and_has_all_labels(path):
    (document,) = documents(path)
    (plugin,) = wasm_configs(document)
    assert plugin["failure_policy"] == "FAIL_RELOAD"
    assert plugin["allow_on_headers_stop_iteration"] is True
    assert json.loads(plugin["configuration"]["value"]).get("hold_headers", True)
    assert [tag["tag_name"] for tag in document["stats_config"]["stats_tags"]] == LABELS
    assert "%FILTER_STATE(wasm.backpressure:PLAIN)%" in path.read_text()


class Running:
    """An example as it is, with other ports and a mock provider in place of the real one."""

    def __init__(self, path, provider_port):
        (document,) = documents(path)
        self.port, self.admin_port = free_port(), free_port()
        document["admin"]["address"]["socket_address"]["port_value"] = self.admin_port
        resources = document["static_resources"]
        resources["listeners"][0]["address"]["socket_address"].update(address="127.0.0.1", port_value=self.port)
        for cluster in resources["clusters"]:
            cluster.pop("transport_socket", None)
            cluster.pop("health_checks", None)
            cluster["type"] = "STATIC"
            cluster.pop("dns_lookup_family", None)
            endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
            endpoint["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": provider_port}
        self.process = Process(f"example-{path.stem}", [
            envoy_path(), "--config-yaml", json.dumps(document), "--concurrency", "2", "--disable-hot-restart",
            "--log-level", "warning", "--file-flush-interval-msec", "50"])

    def __enter__(self):
        self.process.start()
        wait_until(lambda: answers(self.port) or not self.process.alive(), 60, "Envoy")
        assert self.process.alive(), self.process.text()
        return self

    def __exit__(self, *_):
        self.process.stop()

    def call(self, path, body=None, **headers):
        """(status, headers, body) of a call; POST when there is a body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def log(self, decision, **fields):
        """Waits for the access-log line of a decision and returns its gate field."""
        def found():
            for line in self.process.text().splitlines():
                gate = json.loads(line).get("gate") if line.startswith("{") else None
                gate = json.loads(gate) if isinstance(gate, str) and gate.startswith("{") else gate
                if isinstance(gate, dict) and gate["decision"] == decision and fields.items() <= gate.items():
                    return gate
            return None

        return wait_until(found, 10, f"access-log line {decision} {fields}")


@pytest.fixture
def provider():
    with Provider() as provider:
        yield provider


def chat(model="m-chat", **more):
    return {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "Name two knots."}], **more}


@pytest.mark.parametrize(("name", "path", "model", "pool"), [
    ("envoy", "/v1/chat/completions", "m-chat", "m-chat"),
    ("openai", "/v1/chat/completions", "gpt-5-mini", "gpt-mini"),
    ("openai", "/v1/responses", "gpt-5", "gpt"),
    ("anthropic", "/v1/messages", "claude-sonnet-5", "claude"),
    ("vllm", "/v1/chat/completions", "anything", "vllm"),
    ("multi-provider", "/openai/v1/chat/completions", "gpt-5", "openai"),
    ("multi-provider", "/anthropic/v1/messages", "claude-opus-5", "anthropic"),
    ("multi-provider", "/local/v1/chat/completions", "qwen", "local"),
])
def test_calls_pass_and_are_logged(provider, name, path, model, pool):
    with Running(ROOT / "envoy" / f"{name}.yaml", provider.port) as envoy:
        body = chat(model) if "responses" not in path else {"model": model, "max_output_tokens": 50, "input": "Hello"}
        status, _, answer = envoy.call(path, body, x_tenant="acme")
        assert status == 200, answer
        gate = envoy.log("admitted")
        assert gate["pool"] == pool
        assert gate["used"] > 0


def burst(envoy, **headers):
    """Twenty-four calls at once, more than sixty a minute allow."""
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        return list(pool.map(lambda _: envoy.call("/v1/chat/completions", chat(), **headers), range(24)))


def test_the_minimal_file_refuses_what_is_too_much(provider):
    with Running(ROOT / "envoy" / "envoy.yaml", provider.port) as envoy:
        statuses = {status for status, _, _ in burst(envoy, x_tenant="acme")}
        assert 200 in statuses
        assert 429 in statuses
        assert envoy.log("denied")["tenant"] == "acme"


def test_shadow_refuses_nothing_and_says_what_it_would_have(provider):
    with Running(ROOT / "envoy" / "shadow.yaml", provider.port) as envoy:
        answers = burst(envoy)
        assert {status for status, _, _ in answers} == {200}
        assert "denied" in {headers["x-backpressure-shadow"] for _, headers, _ in answers}
        envoy.log("shadow_denied")


def jwt(**claims):
    """A bearer credential signed with the example key of `envoy-full.yaml`."""
    document = yaml.safe_load((ROOT / "envoy" / "envoy-full.yaml").read_text())
    text = json.dumps(document)
    key = base64.urlsafe_b64decode(text.split('\\"k\\": \\"')[1].split('\\"')[0] + "==")

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"iss": "https://issuer.example", "aud": "llm-gateway", "exp": int(time.time()) + 600, **claims}
    signed = part({"alg": "HS256", "kid": "example"}) + b"." + part(claims)
    signature = base64.urlsafe_b64encode(hmac.new(key, signed, hashlib.sha256).digest()).rstrip(b"=")
    return "Bearer " + (signed + b"." + signature).decode()


def test_the_full_file_knows_callers_by_their_jwt(provider):
    with Running(ROOT / "envoy" / "envoy-full.yaml", provider.port) as envoy:
        path = "/v1/chat/completions"
        assert envoy.call(path, chat())[0] == 401
        assert envoy.call(path, chat(), authorization=jwt(org="acme", tier="high"))[0] == 200
        assert envoy.log("admitted", tenant="acme")["class"] == "high"
        # A class that the tenant may not use, and a header that claims another tenant.
        assert envoy.call(path, chat(), authorization=jwt(org="crawler", tier="high"), x_tenant="acme")[0] == 200
        assert envoy.log("admitted", tenant="crawler")["class"] == "low"


def test_the_full_file_shows_the_status_page_to_this_machine(provider):
    with Running(ROOT / "envoy" / "envoy-full.yaml", provider.port) as envoy:
        status, headers, body = envoy.call("/backpressure", accept="application/json")
        assert status == 200
        assert headers["content-type"] == "application/json"
        assert json.loads(body)["pools"][0]["name"] == "m-chat"
