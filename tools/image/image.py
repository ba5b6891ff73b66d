"""Writes the compiled filter as an OCI image layout, without Docker: `image.py MODULE DIRECTORY VERSION`.

One layout with two images, in the forms in which Envoy platforms take a Wasm module:
  VERSION          a layer that is a gzipped tar holding `plugin.wasm`: Istio, Envoy Gateway, and whatever pulls images
  VERSION-artifact the module itself as a layer of type application/vnd.module.wasm.content.layer.v1+wasm: Istio, oras

The bytes depend on the module and the version alone, so that anybody can check a digest by building again.
Push with any tool that copies layouts, for example:
  skopeo copy oci:DIRECTORY:VERSION docker://registry.example/backpressure:VERSION
  oras cp --from-oci-layout DIRECTORY:VERSION registry.example/backpressure:VERSION
"""

import hashlib
import io
import json
import pathlib
import shutil
import struct
import sys
import tarfile
import zlib

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
WASM_CONFIG = "application/vnd.module.wasm.config.v1+json"
WASM_LAYER = "application/vnd.module.wasm.content.layer.v1+wasm"


class Layout:
    """An OCI image layout on disk."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        if self.directory.exists():
            shutil.rmtree(self.directory)
        (self.directory / "blobs" / "sha256").mkdir(parents=True)
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        self.images = []

    def add(self, media_type, data, **more):
        """Stores a blob and returns its descriptor."""
        if not isinstance(data, bytes):
            data = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self.directory / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **more}

    def image(self, reference, config, layer, annotations, **more):
        """Adds an image of one layer and returns its descriptor."""
        manifest = {
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], "annotations": annotations, **more}
        descriptor = self.add(MANIFEST, manifest, annotations={"org.opencontainers.image.ref.name": reference})
        self.images.append(descriptor)
        return descriptor

    def close(self):
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.images}
        (self.directory / "index.json").write_text(json.dumps(index, separators=(",", ":"), sort_keys=True))


def tarred(module):
    """A tar with the one file `plugin.wasm`, of no time and nobody."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        entry = tarfile.TarInfo("plugin.wasm")
        entry.size, entry.mode, entry.mtime = len(module), 0o644, 0
        tar.addfile(entry, io.BytesIO(module))
    return out.getvalue()


def zipped(data):
    """Gzip with stored blocks: compressors differ between versions, and then so would the digest."""
    out = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    starts = range(0, max(len(data), 1), 0xFFFF)
    for start in starts:
        block = data[start:start + 0xFFFF]
        out.append(struct.pack("<BHH", start == starts[-1], len(block), len(block) ^ 0xFFFF) + block)
    out.append(struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF))
    return b"".join(out)


def write(module, directory, version):
    """Writes both images and returns their digests by reference."""
    module = pathlib.Path(module).read_bytes()
    if module[:4] != b"\0asm":
        raise ValueError("not a Wasm module")
    annotations = {
        "org.opencontainers.image.title": "backpressure",
        "org.opencontainers.image.description": "Admission gate for LLM traffic in Envoy (proxy-wasm 0.2.1)",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    layout = Layout(directory)
    tar = tarred(module)
    config = layout.add(CONFIG, {
        "architecture": "wasm", "os": "wasip1", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
    })
    image = layout.image(version, config, layout.add(LAYER, zipped(tar)), annotations)
    layer = layout.add(WASM_LAYER, module, annotations={"org.opencontainers.image.title": "plugin.wasm"})
    artifact = layout.image(
        f"{version}-artifact", layout.add(WASM_CONFIG, {}), layer, annotations, artifactType=WASM_CONFIG)
    layout.close()
    return {version: image["digest"], f"{version}-artifact": artifact["digest"]}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    for name, digest in write(*sys.argv[1:]).items():
        print(f"{name} {digest}")
