#!/usr/bin/env python3
"""Counts the corpus with tokenizers that come as packages of other languages: Llama 3's and Mistral's Tekken.

    tools/accuracy/others.py [target/accuracy]     # after corpus.py: writes corpus/others.tsv
    tools/accuracy/others.py --count FILE ...      # prints both counts of each file

Needs pip and npm.
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


def prepared(tools):
    """Installs both tokenizers below a folder, once."""
    tools.mkdir(parents=True, exist_ok=True)
    python = tools / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", tools / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", MISTRAL], check=True)
    if not (tools / "node_modules").exists():
        (tools / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", LLAMA], cwd=tools, check=True)
    (tools / "llama.mjs").write_text(COUNT_LLAMA)
    return python


def main():
    count = sys.argv[1:2] == ["--count"]
    root = pathlib.Path("target/accuracy" if count or len(sys.argv) < 2 else sys.argv[1]).resolve()
    tools = root / "others"
    python = prepared(tools)
    files = sys.argv[2:] if count else sorted((root / "corpus").glob("*/*/*.txt"))
    paths = [pathlib.Path(path).resolve() for path in files]
    llama, tekken = counted(["node", "llama.mjs"], paths, tools), counted([python, "-c", COUNT_TEKKEN], paths, tools)
    names = [path.name if count else path.relative_to(root / "corpus") for path in paths]
    text = "".join(f"{name}\t{one}\t{other}\n" for name, one, other in zip(names, llama, tekken, strict=True))
    if count:
        print(text, end="")
    else:
        (root / "corpus" / "others.tsv").write_text(text)
        print(f"{len(paths)} documents")


main()
