"""The Istio and Envoy Gateway resources are what the platforms' schemas and the filter accept."""

import json
import subprocess

import jsonschema
import pytest
import yaml
from conftest import ROOT, check_envoy, check_plugin, documents, wasm_configs
from gateway_schema import SCHEMAS
from test_envoy_files import LABELS

ISTIO = [(path.stem, document) for path in sorted((ROOT / "envoy" / "istio").glob("*.yaml")) for document in documents(path)]
GATEWAY = [(path.stem, document) for path in sorted((ROOT / "envoy" / "gateway").glob("*.yaml")) for document in documents(path)]


def complaints(objects):
    done = subprocess.run(
        ["node", "kubernetes.mjs"], cwd=ROOT / "tests" / "adopt", input=json.dumps(objects), capture_output=True, text=True,
        check=True)
    return json.loads(done.stdout)


def test_istio_accepts_its_resources():
    assert complaints([document for _, document in ISTIO]) == [""] * len(ISTIO)


def test_istio_would_not_accept_any_resource():
    (plugin,) = [document for _, document in ISTIO if document["kind"] == "WasmPlugin"]
    wrong = json.loads(json.dumps(plugin))
    wrong["spec"]["failStrategy"] = "RELOAD"
    assert "failStrategy" in complaints([wrong])[0]


def test_istio_accepts_the_target_that_the_plugin_names_for_waypoints():
    (plugin,) = [document for _, document in ISTIO if document["kind"] == "WasmPlugin"]
    text = (ROOT / "envoy" / "istio" / "wasmplugin.yaml").read_text()
    (line,) = [line.strip(" #") for line in text.splitlines() if "targetRefs:" in line]
    at_waypoint = json.loads(json.dumps(plugin))
    del at_waypoint["spec"]["selector"]
    at_waypoint["spec"].update(yaml.safe_load(line))
    assert complaints([at_waypoint]) == [""]
    at_waypoint["spec"]["targetRefs"][0].pop("name")
    assert "name" in complaints([at_waypoint])[0]


def test_the_wasm_plugin_decides_at_the_end_of_the_body():
    (plugin,) = [document for _, document in ISTIO if document["kind"] == "WasmPlugin"]
    assert plugin["spec"]["failStrategy"] == "FAIL_RELOAD"
    assert plugin["spec"]["pluginConfig"]["hold_headers"] is False
    assert check_plugin(plugin["spec"]["pluginConfig"], "wasmplugin") == ""


def test_the_envoy_filter_gives_envoy_a_filter_that_it_accepts():
    (patches,) = [document["spec"]["configPatches"] for name, document in ISTIO if name == "envoyfilter"]
    (config,) = wasm_configs(patches)
    assert config["failure_policy"] == "FAIL_RELOAD"
    assert config["allow_on_headers_stop_iteration"] is True
    # What the agent puts in place of the remote source.
    config["vm_config"]["code"] = {"local": {"filename": "target/backpressure.wasm"}}
    bootstrap = yaml.safe_load((ROOT / "envoy" / "envoy.yaml").read_text())
    (plugin,) = wasm_configs(bootstrap)
    plugin.clear()
    plugin.update(config)
    assert check_envoy(json.dumps(bootstrap), "envoyfilter") == ""
    inserted = patches[0]["patch"]["value"]
    assert inserted["name"] == patches[1]["patch"]["value"]["name"]


def test_istio_cuts_out_every_label():
    (operator,) = [document for _, document in ISTIO if document["kind"] == "IstioOperator"]
    assert operator["spec"]["meshConfig"]["defaultConfig"]["extraStatTags"] == LABELS


def test_envoy_gateway_accepts_its_resources():
    assert complaints([document for _, document in GATEWAY]) == [""] * len(GATEWAY)


def test_envoy_gateway_would_not_accept_any_resource():
    (policy,) = [document for name, document in GATEWAY if name == "envoyextensionpolicy"]
    wrong = json.loads(json.dumps(policy))
    wrong["spec"]["wasm"][0]["code"]["type"] = "Picture"
    assert "code/type" in complaints([wrong])[0]


@pytest.mark.parametrize(("name", "document"), GATEWAY, ids=[f"{name}-{document['kind']}" for name, document in GATEWAY])
def test_no_key_for_envoy_gateway_is_misspelt(name, document):
    jsonschema.validate(document, SCHEMAS[document["kind"]])


def extension(name):
    (policy,) = [document for stem, document in GATEWAY if stem == name and document["kind"] == "EnvoyExtensionPolicy"]
    return policy["spec"]["wasm"][0]


@pytest.mark.parametrize(("name", "holds"), [("envoyextensionpolicy", False), ("envoypatchpolicy", True)])
def test_headers_are_held_only_where_the_flag_is_set(name, holds):
    wasm = extension(name)
    assert wasm["config"]["hold_headers"] is holds
    assert wasm["failOpen"] is not holds
    assert check_plugin(wasm["config"], name) == ""


def test_the_patches_find_the_filter_of_the_policy():
    patches = [document for _, document in GATEWAY if document["kind"] == "EnvoyPatchPolicy"]
    (policy,) = [document for stem, document in GATEWAY if stem == "envoypatchpolicy" and document["kind"] == "EnvoyExtensionPolicy"]
    metadata = policy["metadata"]
    filter_name = f"envoy.filters.http.wasm/envoyextensionpolicy/{metadata['namespace']}/{metadata['name']}/wasm/0"
    listeners = []
    for patch in patches:
        values = {}
        for entry in patch["spec"]["jsonPatches"]:
            assert filter_name in entry["operation"]["jsonPath"]
            values[entry["operation"]["path"]] = entry["operation"]["value"]
            listeners.append(entry["name"])
        assert values == {"/allow_on_headers_stop_iteration": True, "/failure_policy": "FAIL_RELOAD"}
    # Both ways in which Envoy Gateway names the listener `http`, port 80, of the Gateway default/eg; a policy each, since a
    # policy that finds one of its listeners only is reported as failed.
    assert listeners == ["default/eg/http"] * 2 + ["tcp-80"] * 2
    assert len({patch["metadata"]["name"] for patch in patches}) == 2


def test_envoy_gateway_cuts_out_every_label():
    (proxy,) = [document for _, document in GATEWAY if document["kind"] == "EnvoyProxy"]
    bootstrap = yaml.safe_load(proxy["spec"]["bootstrap"]["value"])
    assert [tag["tag_name"] for tag in bootstrap["stats_config"]["stats_tags"]] == LABELS
    bootstrap["static_resources"] = {}
    assert check_envoy(json.dumps(bootstrap), "gateway-stats") == ""
