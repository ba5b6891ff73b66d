"""Real Envoy with the filter, configured from Python dictionaries."""

import dataclasses
import json
import os
import pathlib
import re
import urllib.error
import urllib.request

from .paths import envoy_path, module_path
from .processes import Process, answers, free_port, wait_until

TYPE = "type.googleapis.com"
HTTP_FILTERS = f"{TYPE}/envoy.extensions.filters.http"

# Labels that the filter writes into its metric names as `label.=.value;.` segments.
LABELS = ["pool", "class", "tenant", "decision", "kind", "reason", "resource"]


def wasm_filter(config, module=None, hold_headers=True, as_struct=False, vm_id="backpressure", name="backpressure",
                failure_policy="FAIL_RELOAD"):
    """The HTTP filter entry. `config`: a dictionary, or text taken as it is."""
    if as_struct:
        configuration = {"@type": f"{TYPE}/google.protobuf.Struct", "value": config}
    else:
        text = config if isinstance(config, str) else json.dumps(config)
        configuration = {"@type": f"{TYPE}/google.protobuf.StringValue", "value": text}
    plugin = {
        "name": name,
        "failure_policy": failure_policy,
        "configuration": configuration,
        "vm_config": {
            "vm_id": vm_id,
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"local": {"filename": str(module or module_path("backpressure"))}},
        },
    }
    if hold_headers:
        plugin["allow_on_headers_stop_iteration"] = True
    return {"name": name, "typed_config": {"@type": f"{HTTP_FILTERS}.wasm.v3.Wasm", "config": plugin}}


def cluster(name, port, http2=False, host="127.0.0.1"):
    out = {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [
            {"max_connections": 100000, "max_pending_requests": 100000, "max_requests": 100000}]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port, host)}}]}]},
    }
    if http2:
        out["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPE}/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return out


def address(port, host="127.0.0.1"):
    return {"socket_address": {"address": host, "port_value": port}}


@dataclasses.dataclass
class Listener:
    """One port with filters of its own. `hcm` is merged into the connection manager."""

    filters: list
    hcm: dict = dataclasses.field(default_factory=dict)
    cluster: str = "provider"
    trailers: bool = False
    port: int = dataclasses.field(default_factory=free_port)
    access_log: pathlib.Path = None
    buffer_limit: int = None
    host: str = "127.0.0.1"

    def resource(self, name):
        manager = {
            "@type": f"{TYPE}/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "codec_type": "AUTO",
            "route_config": {"name": "all", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                {"match": {"prefix": "/"}, "route": {"cluster": self.cluster, "timeout": "0s"}}]}]},
            "http_filters": [
                *self.filters, {"name": "router", "typed_config": {"@type": f"{HTTP_FILTERS}.router.v3.Router"}}],
            **self.hcm,
        }
        if self.access_log:
            manager["access_log"] = [{"name": "file", "typed_config": {
                "@type": f"{TYPE}/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": str(self.access_log),
                "log_format": {"json_format": {
                    "status": "%RESPONSE_CODE%", "details": "%RESPONSE_CODE_DETAILS%", "path": "%REQ(:PATH)%",
                    "mark": "%REQ(X-MARK)%", "gate": "%FILTER_STATE(wasm.backpressure:PLAIN)%"}}}}]
        if self.trailers:
            manager["http_protocol_options"] = {"enable_trailers": True}
        return {
            "@type": f"{TYPE}/envoy.config.listener.v3.Listener",
            "name": name,
            "address": address(self.port, self.host),
            **({"per_connection_buffer_limit_bytes": self.buffer_limit} if self.buffer_limit else {}),
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        }


class Envoy:
    """A running Envoy. Begins with the listener `ingress` if it is given filters; more may come and go.

    `link`: it runs at the far end of this one, and its upstream at the near end."""

    def __init__(self, upstream_port, filters=None, workers=2, cores=None, log_level="warning", drain_seconds=1, clusters=(),
                 link=None):
        self.workers = workers
        self.host, self._upstream_host = (link.there, link.here) if link else ("127.0.0.1", "127.0.0.1")
        self.admin_port = free_port()
        self.clusters = clusters
        self.process = Process("envoy", [], cores)
        self.listeners = {}
        directory = self.process.directory
        self._lds = directory / "lds.json"
        self._writes = 0
        self.port = None
        if filters is not None:
            self.listeners["ingress"] = Listener(filters, host=self.host)
            self.port = self.listeners["ingress"].port
        bootstrap = directory / "bootstrap.json"
        bootstrap.write_text(json.dumps(self._bootstrap(upstream_port)))
        self.process.command += [
            *(link.network.inside if link else []), str(envoy_path()), "-c", str(bootstrap), "--concurrency", str(workers), "--disable-hot-restart",
            "--log-level", log_level, "--component-log-level", "wasm:info", "--drain-time-s", str(drain_seconds),
            "--file-flush-interval-msec", "50",
        ]

    def __enter__(self):
        self._write_listeners()
        self.process.start()

        def ready():
            if not self.process.alive():
                raise RuntimeError("Envoy ended at start:\n" + self.process.text()[-4000:])
            listening = all(answers(listener.port, listener.host) for listener in self.listeners.values())
            return answers(self.admin_port, self.host) and self.admin("/ready").strip() == "LIVE" and listening

        wait_until(ready, 60, "Envoy")
        return self

    def __exit__(self, *_):
        self.process.stop()

    def _bootstrap(self, upstream_port):
        return {
            "node": {"id": "gate", "cluster": "gate"},
            "admin": {"address": address(self.admin_port, self.host)},
            "dynamic_resources": {"lds_config": {
                "resource_api_version": "V3",
                "path_config_source": {"path": str(self._lds), "watched_directory": {"path": str(self._lds.parent)}}}},
            "static_resources": {"clusters": [
                cluster("provider", upstream_port, host=self._upstream_host),
                cluster("provider-h2", upstream_port, http2=True, host=self._upstream_host),
                cluster("nowhere", free_port()),
                *self.clusters,
            ]},
            "stats_config": {"stats_tags": [
                {"tag_name": label, "regex": rf"({label}\.=\.(.*?);\.)"} for label in LABELS]},
        }

    def _write_listeners(self):
        self._writes += 1
        resources = [listener.resource(name) for name, listener in self.listeners.items()]
        fresh = self._lds.with_suffix(".new")
        fresh.write_text(json.dumps({"version_info": str(self._writes), "resources": resources}))
        os.replace(fresh, self._lds)

    def put(self, name, listener):
        """Adds or replaces a listener. True: accepted; False: refused, and the old one stays."""
        def counts():
            stats = self.stats("listener_manager.")
            return [stats.get(f"listener_manager.{kind}", 0) for kind in (
                "lds.update_success", "lds.update_rejected", "total_listeners_warming")]

        old, before = self.listeners.get(name), counts()
        self.listeners[name] = listener
        self._write_listeners()
        wait_until(lambda: counts()[:2] != before[:2], 60, "listener update")
        if counts()[1] > before[1]:
            del self.listeners[name]
            if old:
                self.listeners[name] = old
            return False
        wait_until(lambda: counts()[2] == 0 and answers(listener.port, listener.host), 60, "listener warm-up")
        return True

    def remove(self, name):
        """Drops a listener with the next change; nothing waits for it."""
        self.listeners.pop(name, None)

    def admin(self, path, method="GET"):
        request = urllib.request.Request(f"http://{self.host}:{self.admin_port}{path}", method=method)
        try:
            # Envoy answers nothing while it compiles the module.
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def stats(self, contains=""):
        """Counters and gauges by name."""
        out = {}
        for line in self.admin("/stats").splitlines():
            name, _, value = line.rpartition(": ")
            if contains in name and value.isdigit():
                out[name] = int(value)
        return out

    def stat(self, name):
        return self.stats().get(name, 0)

    def prometheus(self, contains=""):
        """Samples of the Prometheus page: (name, labels) -> value."""
        out = {}
        for line in self.admin("/stats/prometheus").splitlines():
            if line.startswith("#") or contains not in line:
                continue
            found = re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line)
            if found:
                labels = frozenset(re.findall(r'(\w+)="([^"]*)"', found.group(2) or ""))
                out[found.group(1), labels] = float(found.group(3))
        return out

    def log(self):
        return self.process.text()
