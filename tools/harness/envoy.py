"""Real Envoy with the filter, configured from Python dictionaries."""

import json
import os
import re
import urllib.error
import urllib.request

from .paths import envoy_path, module_path
from .processes import Process, answers, free_port, wait_until

TYPE = "type.googleapis.com"
HTTP_FILTERS = f"{TYPE}/envoy.extensions.filters.http"

# Labels that the filter writes into its metric names as `label.=.value;.` segments.
LABELS = ["pool", "class", "tenant", "decision", "kind", "reason", "resource"]


def wasm_filter(config, module=None, hold_headers=True, as_struct=False, vm_id="backpressure", name="backpressure"):
    """The HTTP filter entry. `config`: a dictionary, or text taken as it is."""
    if as_struct:
        configuration = {"@type": f"{TYPE}/google.protobuf.Struct", "value": config}
    else:
        text = config if isinstance(config, str) else json.dumps(config)
        configuration = {"@type": f"{TYPE}/google.protobuf.StringValue", "value": text}
    plugin = {
        "name": name,
        "failure_policy": "FAIL_RELOAD",
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


def cluster(name, port, http2=False):
    out = {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [
            {"max_connections": 100000, "max_pending_requests": 100000, "max_requests": 100000}]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}]},
    }
    if http2:
        out["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPE}/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return out


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


class Envoy:
    """A running Envoy: one listener, the given filters, one upstream.

    `filters` are HTTP filter entries before the router; `hcm` is merged into the connection manager.
    """

    def __init__(self, upstream_port, filters, workers=2, hcm=None, upstream_http2=False, cores=None, log_level="warning",
                 stats_tags=True, trailers=False):
        self.upstream_port = upstream_port
        self.workers = workers
        self.hcm = hcm or {}
        self.upstream_http2 = upstream_http2
        self.stats_tags = stats_tags
        self.trailers = trailers
        self.port = free_port()
        self.admin_port = free_port()
        self.filters = filters
        self.process = Process("envoy", [], cores)
        directory = self.process.directory
        self.lds = directory / "lds.json"
        self.access_log = directory / "access.log"
        self.bootstrap = directory / "bootstrap.json"
        self.process.command += [
            str(envoy_path()), "-c", str(self.bootstrap), "--concurrency", str(workers), "--disable-hot-restart",
            "--log-level", log_level, "--component-log-level", "wasm:info", "--drain-time-s", "1", "--file-flush-interval-msec", "50",
        ]

    def __enter__(self):
        self.write_listener()
        self.bootstrap.write_text(json.dumps(self._bootstrap()))
        self.process.start()

        def ready():
            if not self.process.alive():
                raise RuntimeError("Envoy ended at start:\n" + self.process.text()[-4000:])
            return answers(self.admin_port) and self.admin("/ready").strip() == "LIVE" and answers(self.port)

        wait_until(ready, 30, "Envoy")
        return self

    def __exit__(self, *_):
        self.process.stop()

    def _bootstrap(self):
        out = {
            "node": {"id": "gate", "cluster": "gate"},
            "admin": {"address": address(self.admin_port)},
            "dynamic_resources": {"lds_config": {
                "resource_api_version": "V3",
                "path_config_source": {"path": str(self.lds), "watched_directory": {"path": str(self.lds.parent)}}}},
            "static_resources": {"clusters": [cluster("provider", self.upstream_port, self.upstream_http2)]},
        }
        if self.stats_tags:
            out["stats_config"] = {"stats_tags": [
                {"tag_name": label, "regex": rf"({label}\.=\.(.*?);\.)"} for label in LABELS]}
        return out

    def _listener(self):
        manager = {
            "@type": f"{TYPE}/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "ingress",
            "codec_type": "AUTO",
            "route_config": {"name": "all", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                {"match": {"prefix": "/"}, "route": {"cluster": "provider", "timeout": "0s"}}]}]},
            "http_filters": [*self.filters, {"name": "router", "typed_config": {"@type": f"{HTTP_FILTERS}.router.v3.Router"}}],
            "access_log": [{"name": "file", "typed_config": {
                "@type": f"{TYPE}/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": str(self.access_log),
                "log_format": {"json_format": {
                    "status": "%RESPONSE_CODE%", "details": "%RESPONSE_CODE_DETAILS%", "path": "%REQ(:PATH)%",
                    "id": "%REQ(X-REQUEST-ID)%", "mark": "%REQ(X-MARK)%", "gate": "%FILTER_STATE(wasm.backpressure:PLAIN)%"}}}}],
            **self.hcm,
        }
        if self.trailers:
            manager["http_protocol_options"] = {"enable_trailers": True}
        return {
            "@type": f"{TYPE}/envoy.config.listener.v3.Listener",
            "name": "ingress",
            "address": address(self.port),
            "filter_chains": [{"filters": [
                {"name": "http", "typed_config": manager}]}],
        }

    def write_listener(self):
        self._version = getattr(self, "_version", 0) + 1
        text = json.dumps({"version_info": str(self._version), "resources": [self._listener()]})
        fresh = self.lds.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self.lds)

    def reload(self, filters):
        """Puts other filters in place of the present ones. True: accepted, False: refused (the old ones stay)."""
        def counts():
            return (self.stat("listener_manager.lds.update_success"), self.stat("listener_manager.lds.update_rejected"))

        before = counts()
        self.filters = filters
        self.write_listener()
        wait_until(lambda: counts() != before, 20, "listener update")
        wait_until(lambda: self.stat("listener_manager.total_listeners_warming") == 0, 20, "listener warm-up")
        return counts()[0] > before[0]

    def admin(self, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
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

    def metric(self, name, **labels):
        """Sum over all samples of a filter metric that carry these labels."""
        wanted = set(labels.items())
        samples = self.prometheus(f"backpressure_{name}").items()
        return sum(value for (sample, found), value in samples if sample == f"backpressure_{name}" and wanted <= found)

    def access_entries(self):
        """The access log so far, parsed; it is written with up to a second of delay."""
        if not self.access_log.exists():
            return []
        return [json.loads(line) for line in self.access_log.read_text().splitlines() if line.startswith("{")]

    def log(self):
        return self.process.text()
