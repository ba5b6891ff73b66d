"""What `envoy/fleet/` ships fits together."""

import json
import pathlib
import subprocess

import yaml

from harness.paths import envoy_path, module_path

ROOT = pathlib.Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "envoy" / "fleet"


def compose():
    return yaml.safe_load((SHIPPED / "docker-compose.yaml").read_text())


def envoy_config():
    return yaml.safe_load((SHIPPED / "envoy.yaml").read_text())


def test_the_compose_file_names_services_networks_and_files_that_exist():
    whole = compose()
    assert set(whole["services"]) == {"redis", "webdis", "envoy"}
    assert whole["services"]["envoy"]["deploy"]["replicas"] == 3
    low, high = map(int, whole["services"]["envoy"]["ports"][0].split(":")[0].split("-"))
    assert high - low == 2
    for name, service in whole["services"].items():
        assert service["image"].count(":") == 1, name
        assert set(service.get("networks", [])) <= set(whole["networks"])
        assert set(service.get("depends_on", [])) <= set(whole["services"])
        for volume in service["volumes"]:
            path, inside, mode = volume.split(":")
            assert mode == "ro" and inside.startswith("/")
            source = (SHIPPED / path).resolve()
            assert source.exists() or source == ROOT / "target" / "backpressure.wasm", source
            assert any(inside in str(word) for word in [*service["command"], (SHIPPED / "envoy.yaml").read_text()]), volume
    # The store is out of reach for all but the Envoys.
    assert whole["networks"]["store"]["internal"]
    assert [name for name, service in whole["services"].items() if "ports" in service] == ["envoy"]


def test_the_passwords_and_addresses_agree():
    webdis = json.loads((SHIPPED / "webdis.compose.json").read_text())
    alone = json.loads((SHIPPED / "webdis.json").read_text())
    # A text, and so the user `default`: older Webdis, Debian's among them, know no other user.
    assert isinstance(webdis["redis_auth"], str)
    assert (SHIPPED / "users.acl").read_text().startswith(f"user default reset on >{webdis['redis_auth']} ")
    assert webdis["redis_host"] in compose()["services"]
    assert {name: webdis[name] for name in webdis if not name.endswith("_host")} == {
        name: alone[name] for name in alone if not name.endswith("_host")}
    filters = envoy_config()["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
    plugin = filters[0]["typed_config"]["config"]
    fleet = json.loads(plugin["configuration"]["value"])["fleet"]
    assert f"{fleet['auth']['user']}:{fleet['auth']['password']}" == webdis["acl"][1]["http_basic_auth"]
    clusters = {cluster["name"]: cluster for cluster in envoy_config()["static_resources"]["clusters"]}
    store = clusters[fleet["cluster"]]
    assert store == yaml.safe_load((SHIPPED / "store-cluster.yaml").read_text())
    place = store["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
    assert (place["address"], place["port_value"]) == ("webdis", webdis["http_port"])


def test_envoy_accepts_the_shipped_configuration(tmp_path):
    text = (SHIPPED / "envoy.yaml").read_text().replace("/etc/envoy/backpressure.wasm", str(module_path("backpressure")))
    path = tmp_path / "envoy.yaml"
    path.write_text(text)
    done = subprocess.run([envoy_path(), "--mode", "validate", "-c", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
