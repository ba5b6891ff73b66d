"""Gathers a release into one directory: `release.py DIRECTORY`, after `make build` and `make image`.

    backpressure.wasm, backpressure.wasm.sha256     the module
    backpressure-VERSION.oci.tar                    the image layout
    backpressure.schema.json                        the configuration's schema
    backpressure.cdx.json                           what is compiled into the module (CycloneDX 1.5)
    NOTES.md                                        version, what changed (from CHANGELOG.md), digests
    SHA256SUMS                                      of all of these
"""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = "wasm32-wasip1"


def metadata():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def linked(data):
    """Packages that are compiled into the module: those reached from its crate through normal dependencies."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    (root,) = [package["id"] for package in data["packages"] if package["name"] == "envoy-backpressure"]
    seen, todo = set(), [root]
    while todo:
        identity = todo.pop()
        if identity in seen:
            continue
        seen.add(identity)
        for dependency in nodes[identity]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                todo.append(dependency["pkg"])
    rest = sorted((packages[identity] for identity in seen - {root}), key=lambda package: (package["name"], package["version"]))
    return packages[root], rest, {identity: nodes[identity] for identity in seen}


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, kind):
    out = {
        "type": kind, "bom-ref": reference(package), "name": package["name"], "version": package["version"],
        "purl": reference(package)}
    if package.get("license"):
        out["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return out


def bill_of_materials(module_digest):
    data = metadata()
    root, rest, nodes = linked(data)
    packages = {package["id"]: package for package in data["packages"]}
    main = component(root, "library")
    main["hashes"] = [{"alg": "SHA-256", "content": module_digest}]
    dependencies = []
    for identity, node in nodes.items():
        to = sorted(reference(packages[dependency["pkg"]]) for dependency in node["deps"] if dependency["pkg"] in nodes)
        dependencies.append({"ref": reference(packages[identity]), "dependsOn": to})
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": main},
        "components": [component(package, "library") for package in rest],
        "dependencies": sorted(dependencies, key=lambda entry: entry["ref"]),
    }, root["version"]


def archived(layout, path):
    """The layout as a tar whose bytes depend on its content alone."""
    def plain(entry):
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.mode = 0, 0, 0, "", "", 0o755 if entry.isdir() else 0o644
        return entry

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(layout.rglob("*")):
            tar.add(file, file.relative_to(layout), recursive=False, filter=plain)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def changes(text, version):
    """The changelog's section of a version, as a heading and lines; what is unreleased when it has none of its own."""
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    by_name = {re.match(r"\[?([^\]\s]+)", section)[1]: section for section in sections}
    section = by_name.get(version) or by_name.get("Unreleased")
    if section is None:
        raise ValueError(f"CHANGELOG.md says nothing of {version}")
    body = section.split("\n", 1)[1].strip()
    # Links that are relative to the repository's root lead nowhere from a release.
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", body)


def notes(version, digest, layout):
    images = json.loads((layout / "index.json").read_text())["manifests"]
    text = changes((ROOT / "CHANGELOG.md").read_text(), version)
    lines = [f"# Backpressure for Envoy {version}", "",
             "An admission gate for LLM traffic as one WebAssembly filter. For Envoy 1.36 to 1.40 (V8), Istio from 1.28, Envoy Gateway from 1.6.", "",
             text, "", "## Files", "", "| what | sha256 |", "| --- | --- |", f"| `backpressure.wasm` | `{digest}` |"]
    lines += [f"| image `{image['annotations']['org.opencontainers.image.ref.name']}` | `{image['digest'].removeprefix('sha256:')}` |"
              for image in images]
    lines += ["", "`SHA256SUMS` has the digests of all files. `backpressure-check`, from the same sources, says whether a configuration is still",
              "accepted; docs/upgrade.md says what an upgrade keeps.", ""]
    return "\n".join(lines)


def main(directory):
    out = pathlib.Path(directory)
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    module = ROOT / "target" / "backpressure.wasm"
    digest = sha256(module)
    materials, version = bill_of_materials(digest)
    layout = ROOT / "target" / "image"
    shutil.copy(module, out)
    shutil.copy(ROOT / "envoy" / "backpressure.schema.json", out)
    (out / "backpressure.wasm.sha256").write_text(f"{digest}  backpressure.wasm\n")
    (out / "backpressure.cdx.json").write_text(json.dumps(materials, indent=1) + "\n")
    archived(layout, out / f"backpressure-{version}.oci.tar")
    (out / "NOTES.md").write_text(notes(version, digest, layout))
    (out / "SHA256SUMS").write_text("".join(f"{sha256(file)}  {file.name}\n" for file in sorted(out.iterdir())))
    print(f"{out}: {', '.join(file.name for file in sorted(out.iterdir()))}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
