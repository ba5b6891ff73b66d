"""Real Prometheus scrapes real Envoy: labels, dashboard and alerts show what happens."""

import json
import math
import re
import textwrap

import pytest
import yaml
from busy import Busy, Prometheus
from conftest import ROOT
from harness.paths import RUN_DIR
from harness.processes import wait_until

FOLDER = ROOT / "envoy" / "prometheus"
DASHBOARD = json.loads((ROOT / "envoy" / "grafana" / "backpressure.json").read_text())
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]



def told():
    """The PromQL of the documentation: (page, expression); a line that is set in goes on with the one before."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(r"(?ms)^ *```promql\n(.*?)^ *```", page.read_text()):
            lines = textwrap.dedent(block).split("\n")
            bare = "\n".join(re.sub(r"\s*#.*", "", line) for line in lines)
            yield from ((page.stem, " ".join(text.split())) for text in re.split(r"\n(?=\S)", bare) if text.strip())


TOLD = list(told())

# Every metric of the filter and the labels that Prometheus must show.
METRICS = {
    "requests": {"pool", "class", "tenant", "decision"},
    "tokens": {"pool", "class", "tenant", "kind"},
    "denials": {"pool", "reason"},
    "anomalies": {"reason"},
    "unmatched": set(),
    "upstream_throttled": {"pool"},
    "available": {"pool", "resource"},
    "in_flight": {"pool"},
    "parked": {"pool"},
    "booked": {"pool"},
    "fairness_permille": {"pool"},
    "share_permille": {"pool", "class", "tenant", "kind"},
    "wait_ms_bucket": {"pool", "class", "le"},
    "estimate_error_permille_bucket": {"pool", "le"},
}
# What no sound run ever shows.
NEVER = {"BackpressureFailingOpen"}
SCRAPED = {"__name__", "instance", "job"}


@pytest.fixture(scope="module")
def prometheus():
    """Prometheus with the shipped files, scraping a busy gate every second."""
    with Busy() as busy:
        RUN_DIR.mkdir(exist_ok=True)
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
        config["global"]["scrape_interval"] = "1s"
        config["rule_files"] = [str(FOLDER / "alerts.yml")]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{busy.envoy.admin_port}"]}]
        path = RUN_DIR / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        with Prometheus(path) as prometheus:
            def seen():
                late = prometheus.query('rate(backpressure_anomalies{reason="settle_late"}[5m]) > 0')
                return late and prometheus.query("rate(backpressure_wait_ms_count[5m]) > 0")

            wait_until(seen, 90, "a first rate of what comes last")
            yield prometheus


@pytest.mark.parametrize("name", METRICS)
def test_labels_come_out_of_the_names(prometheus, name):
    samples = prometheus.query(f"backpressure_{name}")
    assert samples, "no sample"
    for labels, _ in samples:
        assert set(labels) - SCRAPED == METRICS[name]


def test_no_other_metric_and_no_unlabelled_rest(prometheus):
    names = {labels["__name__"] for labels, _ in prometheus.query('{__name__=~"backpressure.*"}')}
    histograms = {f"backpressure_{name}_{part}" for name in ("wait_ms", "estimate_error_permille") for part in ("sum", "count")}
    assert names - histograms == {f"backpressure_{name}" for name in METRICS}


def test_values_are_those_of_the_configuration(prometheus):
    def values(label, name):
        return {labels[label] for labels, _ in prometheus.query(f"backpressure_{name}")}

    assert values("pool", "requests") == {"m-chat", "troubled", "odd"}
    assert values("tenant", "requests") == {"acme", "beta", "other"}
    assert values("class", "requests") == {"high", "low"}
    assert values("kind", "tokens") >= {"reserved", "input", "output"}


def is_shown(samples):
    return any(not math.isnan(value) for _, value in samples)


@pytest.mark.parametrize(("title", "expression"), QUERIES, ids=[f"{title}-{number}" for number, (title, _) in enumerate(QUERIES)])
def test_no_panel_is_empty(prometheus, title, expression):
    assert is_shown(prometheus.query(expression.replace("$pool", ".*")))


@pytest.mark.parametrize(("page", "expression"), TOLD, ids=[f"{page}-{number}" for number, (page, _) in enumerate(TOLD)])
def test_prometheus_answers_what_the_pages_tell_to_ask(prometheus, page, expression):
    # No call of this load is refused in shadow mode.
    assert is_shown(prometheus.query(expression.replace("shadow_denied", "denied")))


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_no_alert_watches_nothing(prometheus, rule):
    watched, found = re.subn(r"\s+[<>]\s+[0-9.]+\s*$", "", rule["expr"])
    assert found == 1
    assert is_shown(prometheus.query(watched)) is (rule["alert"] not in NEVER)


def test_prometheus_takes_the_alerts(prometheus):
    (group,) = prometheus.get("/api/v1/rules")["data"]["groups"]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in ALERTS]
    assert all(rule["health"] in ("ok", "unknown") for rule in group["rules"])
