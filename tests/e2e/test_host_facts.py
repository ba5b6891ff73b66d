"""What the filter relies on in Envoy, pinned without the filter."""

import subprocess

from harness import ROOT, Envoy, call, module_path, parallel, wasm_filter
from harness.envoy import LABELS
from harness.paths import envoy_path


def test_creating_a_missing_entry_under_a_version_that_never_matches_succeeds_exactly_once(provider):
    probe = wasm_filter({}, module=module_path("probe"))
    with Envoy(provider.port, [probe], workers=4) as envoy:
        for key in range(5):
            answers = parallel(40, lambda _: call(envoy.port, b"", headers={"x-probe-create": f"bp.{key}"}).body)
            assert (answers.count(b"created"), answers.count(b"exists")) == (1, 39)


def test_the_shipped_envoy_yaml_is_accepted_and_has_a_tag_rule_for_every_label():
    path = ROOT / "envoy" / "envoy.yaml"
    done = subprocess.run([envoy_path(), "--mode", "validate", "-c", path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for label in LABELS:
        assert f"tag_name: {label}," in path.read_text()
    assert "failure_policy: FAIL_RELOAD" in path.read_text()


