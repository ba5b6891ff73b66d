"""What a gate costs in Envoy beside its peers: `make compare-overhead`.

Bare Envoy, the native local_ratelimit, a Lua filter that reads the body, ext_proc with the least server there is (Python), and this
filter; no cap binds. Each variant is saturated in turn within a round, so that a noisy machine hits all alike; ratios are taken within
a round, and the median over rounds is shown. With one worker Envoy has a core and the load and the provider share the other; with two
everything shares both.

    overhead.py [--seconds 1] [--rounds 5] [--workers 1,2] [--out FILE] [--page FILE]
"""

import argparse
import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "benches" / "envoy")]

import bench
from harness import Envoy, Provider, free_port, wasm_filter
from harness.envoy import HTTP_FILTERS, cluster
from harness.processes import Process, answers, wait_until

MARK = "<!-- overhead -->"
TITLES = {"bare": "bare Envoy", "local_ratelimit": "local_ratelimit (counts calls)", "lua": "Lua, reads the body", "ext_proc": "ext_proc, server that agrees",
          "gate": "**this filter**"}

LUA = """
function envoy_on_request(handle)
  local body = handle:body()
  local text = body and body:getBytes(0, body:length()) or ""
  local model = string.match(text, '"model"%s*:%s*"([^"]*)"') or ""
  local most = tonumber(string.match(text, '"max_tokens"%s*:%s*(%d+)')) or 1024
  local letters = 0
  for content in string.gmatch(text, '"content"%s*:%s*"([^"]*)"') do letters = letters + #content end
  handle:headers():replace("x-cost", tostring(math.floor(letters / 4) + most))
  handle:headers():replace("x-model", model)
end
"""


def variants():
    lua = {"name": "lua", "typed_config": {"@type": f"{HTTP_FILTERS}.lua.v3.Lua", "default_source_code": {"inline_string": LUA}}}
    ext_proc = {"name": "ext_proc", "typed_config": {
        "@type": f"{HTTP_FILTERS}.ext_proc.v3.ExternalProcessor", "failure_mode_allow": False, "message_timeout": "10s",
        "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}},
        "processing_mode": {"request_header_mode": "SEND", "response_header_mode": "SKIP", "request_body_mode": "BUFFERED",
                            "response_body_mode": "NONE", "request_trailer_mode": "SKIP", "response_trailer_mode": "SKIP"}}}
    return {"bare": [], "local_ratelimit": [bench.LOCAL_RATELIMIT], "lua": [lua], "ext_proc": [ext_proc],
            "gate": [wasm_filter(bench.GATE)]}


class WithProcessor(Envoy):
    """Envoy that knows the processor."""

    processor_port = None

    def _bootstrap(self, upstream_port):
        out = super()._bootstrap(upstream_port)
        out["static_resources"]["clusters"].append(cluster("processor", self.processor_port, http2=True))
        return out


def quantiles(envoys, seconds, rounds, size):
    """Added p50 and p99 (on a shared machine the scheduler's rather than the filter's: not shown in the page) of one caller at a time over bare Envoy, in milliseconds: the median over rounds."""
    runs = {name: [] for name in envoys}
    for round_ in range(rounds):
        for name, envoy in bench.rotated(envoys, round_):
            result = bench.wrk(envoy.port, size, seconds, 1)
            runs[name].append((result["p50_us"] / 1000, result["p99_us"] / 1000))
    return {name: [statistics.median(mine[at] - base[at] for mine, base in zip(values, runs["bare"])) for at in (0, 1)]
            for name, values in runs.items()}


def saturated(envoys, server, seconds, rounds, size):
    """Variant -> over rounds (calls a second, CPU microseconds a call of Envoy, of the processor)."""
    runs = {name: [] for name in envoys}
    for round_ in range(rounds):
        for name, envoy in bench.rotated(envoys, round_):
            before, outside = envoy.process.cpu_seconds(), server.cpu_seconds()
            result = bench.wrk(envoy.port, size, seconds, 32)
            used, beside = envoy.process.cpu_seconds() - before, server.cpu_seconds() - outside
            runs[name].append((result["calls"] * 1e6 / result["us"], used * 1e6 / result["calls"], beside * 1e6 / result["calls"]))
    return runs


def measure(options):
    out = []
    with Provider(fast=True, cores=bench.LOAD_CORE) as provider:
        WithProcessor.processor_port = free_port()
        server = Process("ext-proc", [sys.executable, ROOT / "compare" / "ext_proc_server.py", WithProcessor.processor_port])
        server.start()
        try:
            wait_until(lambda: answers(WithProcessor.processor_port), 20, "ext_proc server")
            for workers in options.workers:
                cores = bench.ENVOY_CORE if workers == 1 else None
                envoys = {name: WithProcessor(provider.port, chain, workers=workers, cores=cores) for name, chain in variants().items()}
                try:
                    for envoy in envoys.values():
                        envoy.__enter__()
                    for title, size in bench.SIZES.items():
                        for envoy in envoys.values():
                            bench.wrk(envoy.port, size, 1, 32)
                        added = quantiles(envoys, options.seconds, options.rounds, size)
                        runs = saturated(envoys, server, options.seconds, options.rounds, size)
                        for name, values in runs.items():
                            out.append({
                                "workers": workers, "body": title, "filter": name,
                                "calls_per_second": statistics.median(rate for rate, _, _ in values),
                                "of_bare": statistics.median(mine[0] / base[0] for mine, base in zip(values, runs["bare"])),
                                "added_p50_ms": added[name][0], "added_p99_ms": added[name][1],
                                "cpu_us": statistics.median(cpu for _, cpu, _ in values),
                                "processor_cpu_us": statistics.median(beside for _, _, beside in values) if name == "ext_proc" else 0,
                                "mib": envoys[name].process.resident_bytes() / 1024 / 1024})
                            show(out[-1])
                finally:
                    for envoy in envoys.values():
                        envoy.__exit__()
        finally:
            server.stop()
    return out


def show(row):
    print(f"{row['workers']} worker(s)  {row['body']:7} {row['filter']:16} {row['calls_per_second']:9,.0f}/s  {row['of_bare']:5.2f} of bare"
          f"  p50 {row['added_p50_ms']:+.3f} p99 {row['added_p99_ms']:+.3f} ms  CPU {row['cpu_us']:6.1f} + {row['processor_cpu_us']:5.1f} us"
          f"  {row['mib']:5.1f} MiB", flush=True)


def page(rows, path):
    lines = ["| workers | body | filter | throughput of bare | added p50, ms | CPU a call, µs | memory, MiB |", "|" + " --- |" * 7]
    for row in rows:
        cpu = f"{row['cpu_us']:.0f}" + (f" + {row['processor_cpu_us']:.0f} in the server" if row["processor_cpu_us"] else "")
        lines.append(f"| {row['workers']} | {row['body']} | {TITLES[row['filter']]} | {row['of_bare']:.2f} | {row['added_p50_ms']:.2f} |"
                     f" {cpu} | {row['mib']:.0f} |")
    head, _, tail = path.read_text().partition(MARK)
    _, _, tail = tail.partition(MARK)
    path.write_text(f"{head}{MARK}\n\n" + "\n".join(lines) + f"\n\n{MARK}{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path, help="write the table between its marks in this page")
    options = parser.parse_args()
    rows = measure(options)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    if options.page:
        page(rows, options.page)


if __name__ == "__main__":
    main()
