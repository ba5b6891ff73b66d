"""The book names what there is, and its links lead somewhere."""

import re

import pytest
import yaml
from conftest import ROOT
from test_metrics import METRICS

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OPERATIONS = (DOCS / "operations.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_summary_has_every_page():
    listed = set(re.findall(r"\]\(([^)]+)\)", (DOCS / "SUMMARY.md").read_text()))
    assert {str(page.relative_to(DOCS)) for page in PAGES} - {"SUMMARY.md"} == listed


def test_every_anomaly_has_a_remedy():
    names = re.findall(r'^    \w+, "(\w+)"', (ROOT / "src" / "observe" / "anomaly.rs").read_text(), re.M)
    assert len(names) > 10
    assert [name for name in names if f"`{name}`" not in OPERATIONS] == []


def test_every_metric_is_explained():
    names = [name.removesuffix("_bucket") for name in METRICS]
    assert [name for name in names if not re.search(rf"`(backpressure)?_{name}`", OPERATIONS)] == []


def test_every_alert_has_an_answer():
    alerts = yaml.safe_load((ROOT / "envoy" / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    assert [rule["alert"] for rule in alerts if f"**{rule['alert']}.**" not in OPERATIONS] == []


def test_every_install_file_exists():
    for path in re.findall(r"`(envoy/[\w/.-]+\.yaml)`", (DOCS / "install.md").read_text()):
        assert (ROOT / path).exists(), path
