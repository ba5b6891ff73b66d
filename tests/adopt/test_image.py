"""The OCI image can be unpacked by what fetches it, and anybody can build the same bytes."""

import gzip
import hashlib
import io
import json
import sys
import tarfile

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "image"))
import image  # noqa: E402
import release  # noqa: E402

# Layer types that Istio's fetcher knows, and how it reads each.
TAR_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
WASM_LAYER = "application/vnd.module.wasm.content.layer.v1+wasm"
WASM_CONFIG = "application/vnd.module.wasm.config.v1+json"


@pytest.fixture
def layout(module, tmp_path):
    image.write(module, tmp_path / "image", "1.2.3")
    return tmp_path / "image"


def blob(layout, descriptor):
    """A blob, checked against its descriptor as every client does."""
    algorithm, digest = descriptor["digest"].split(":")
    data = (layout / "blobs" / algorithm / digest).read_bytes()
    assert len(data) == descriptor["size"]
    assert hashlib.sha256(data).hexdigest() == digest
    return data


def manifest(layout, reference):
    index = json.loads((layout / "index.json").read_text())
    (descriptor,) = [entry for entry in index["manifests"] if entry["annotations"]["org.opencontainers.image.ref.name"] == reference]
    return json.loads(blob(layout, descriptor))


def fetched(layout, reference):
    """The module as Istio's fetcher takes it out of an image."""
    found = manifest(layout, reference)
    config = found["config"]["mediaType"]
    if config == WASM_CONFIG:
        layers = [layer for layer in found["layers"] if layer["mediaType"] == WASM_LAYER]
        assert len(layers) == 1
        return blob(layout, layers[0])
    assert config == "application/vnd.oci.image.config.v1+json"
    assert len(found["layers"]) == 1
    assert found["layers"][0]["mediaType"] == TAR_LAYER
    with gzip.open(io.BytesIO(blob(layout, found["layers"][0]))) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        for entry in tar:
            if entry.name == "plugin.wasm":
                return tar.extractfile(entry).read()
    raise AssertionError("no plugin.wasm")


@pytest.mark.parametrize("reference", ["1.2.3", "1.2.3-artifact"])
def test_the_module_comes_out_as_it_went_in(layout, module, reference):
    assert fetched(layout, reference) == module.read_bytes()


def test_it_is_a_layout(layout):
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    for descriptor in json.loads((layout / "index.json").read_text())["manifests"]:
        found = json.loads(blob(layout, descriptor))
        assert found["mediaType"] == descriptor["mediaType"]
        json.loads(blob(layout, found["config"]))


def test_the_image_names_its_uncompressed_layer(layout):
    found = manifest(layout, "1.2.3")
    (diff,) = json.loads(blob(layout, found["config"]))["rootfs"]["diff_ids"]
    plain = gzip.decompress(blob(layout, found["layers"][0]))
    assert diff == f"sha256:{hashlib.sha256(plain).hexdigest()}"


def test_building_again_gives_the_same_digests(module, tmp_path):
    first = image.write(module, tmp_path / "a", "1.2.3")
    assert image.write(module, tmp_path / "b", "1.2.3") == first
    files = [sorted(path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*")) for name in "ab"]
    assert files[0] == files[1]


def test_digests_do_not_depend_on_the_machine(tmp_path):
    """Fixed bytes in, fixed digests out, whatever Python, zlib or clock."""
    module = tmp_path / "m.wasm"
    module.write_bytes(b"\0asm\1\0\0\0" + bytes(200_000))
    assert image.write(module, tmp_path / "image", "0.0.0") == {
        "0.0.0": "sha256:9ecae0bfa6d2ee71fb93be2dee8dc887b38e0fc5f3128a096dab536ffc4dfd93",
        "0.0.0-artifact": "sha256:3cfebee8235f7ebf7ee5182dfeaeef048607434e9e589526c3a1d112b7cbc00c",
    }


def test_what_is_not_a_module_is_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="not a Wasm module"):
        image.write(path, tmp_path / "image", "1")


CHANGELOG = """# Changelog

## [Unreleased]

### Added

- What comes.

## [1.2.3] - 2026-01-02

### Fixed

- A [thing](docs/thing.md), see [there](https://example.org/x).

## [1.2.2]

- Old.
"""


def test_release_notes_are_the_changelog_of_the_version():
    assert release.changes(CHANGELOG, "1.2.3") == "### Fixed\n\n- A thing, see [there](https://example.org/x)."
    assert release.changes(CHANGELOG, "2.0.0") == "### Added\n\n- What comes."
    with pytest.raises(ValueError, match="says nothing"):
        release.changes("# Changelog\n\n## 0.1.0\n", "2.0.0")


def test_release_notes_tell_what_it_is_and_give_every_digest(layout):
    text = release.notes("1.2.3", "ab" * 32, layout)
    assert text.startswith("# Backpressure for Envoy 1.2.3\n")
    assert "ab" * 32 in text
    for entry in json.loads((layout / "index.json").read_text())["manifests"]:
        assert entry["digest"].removeprefix("sha256:") in text


def test_the_bill_of_materials_lists_what_is_linked():
    materials, _ = release.bill_of_materials("0" * 64)
    names = {component["name"] for component in materials["components"]}
    assert {"proxy-wasm", "serde_json", "hashbrown"} <= names
    # Development dependencies are not in the module.
    assert not names & {"proptest", "criterion", "sha2", "wasmtime"}
    known = {component["bom-ref"] for component in materials["components"]} | {materials["metadata"]["component"]["bom-ref"]}
    for dependency in materials["dependencies"]:
        assert dependency["ref"] in known
        assert set(dependency["dependsOn"]) <= known
