#!/usr/bin/env python3
"""Counts the test part of the corpus with tokenizers that the filter has no weights for: Mistral's Tekken and Llama 3.

    tools/accuracy/others.py [target/accuracy]

Needs pip and npm. Writes `corpus/others.tsv`; `cargo run --release -p accuracy -- --others` compares.
"""

import json
import pathlib
import subprocess
import sys

MISTRAL, LLAMA = "mistral-common==1.13.0", "llama3-tokenizer-js@1.2.0"

COUNT_LLAMA = """
import { readFileSync } from "node:fs";
import tokenizer from "llama3-tokenizer-js";
for (const path of readFileSync(0, "utf8").split("\\n").filter(Boolean))
  console.log(tokenizer.encode(readFileSync(path, "utf8"), { bos: false, eos: false }).length);
"""

COUNT_TEKKEN = """
import pathlib, sys
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
import mistral_common
(path, *_) = sorted(pathlib.Path(mistral_common.__file__).parent.glob("data/tekken*.json"))
tokenizer = Tekkenizer.from_file(path)
for line in sys.stdin:
    print(len(tokenizer.encode(pathlib.Path(line.strip()).read_text(), bos=False, eos=False)))
"""


def counted(command, paths, cwd):
    done = subprocess.run(command, input="\n".join(map(str, paths)) + "\n", cwd=cwd, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/accuracy").resolve()
    tools = root / "others"
    tools.mkdir(parents=True, exist_ok=True)
    python = tools / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", tools / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", MISTRAL], check=True)
    if not (tools / "node_modules").exists():
        (tools / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", LLAMA], cwd=tools, check=True)
    (tools / "llama.mjs").write_text(COUNT_LLAMA)
    paths = sorted((root / "corpus" / "test").glob("*/*.txt"))
    rows = zip(paths, counted([python, "-c", COUNT_TEKKEN], paths, tools), counted(["node", "llama.mjs"], paths, tools))
    lines = [f"{path.relative_to(root / 'corpus')}\t{tekken}\t{llama}\n" for path, tekken, llama in rows]
    (root / "corpus" / "others.tsv").write_text("".join(lines))
    print(f"{len(lines)} documents")


main()
