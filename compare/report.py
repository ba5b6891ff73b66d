"""Writes `docs/comparison.md` and its figures from the raw data."""

import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import svg
from loads import LOADS, PROVIDER_BURST_S, SLOTS
from systems import ALL, SYSTEMS

OURS = ["gate", "gate-mistold", "gate-temporal"]
MARK = "<!-- measured -->"


class Results:
    """Medians over the repeats, by system and load."""

    def __init__(self, directory):
        self.runs = {}
        for path in sorted(directory.glob("*-*.json")):
            run = json.loads(path.read_text())
            name = run["system"] + ("-in-slot" if run.get("hold_slot") else "")
            self.runs.setdefault((name, run["load"]), []).append(run["figures"])
        self.versions = json.loads((directory / "versions.json").read_text())
        latency = directory / "latency.json"
        self.latency = json.loads(latency.read_text()) if latency.exists() else {}
        overhead = directory / "overhead.json"
        self.overhead = json.loads(overhead.read_text()) if overhead.exists() else []

    def has(self, system, load):
        return (system, load) in self.runs

    def median(self, system, load, figure):
        return statistics.median(figure(run) for run in self.runs[system, load])

    def spread(self, system, load, figure):
        values = [figure(run) for run in self.runs[system, load]]
        return max(values) - min(values)

    def wait(self, system, load, name, which):
        """(seconds, whether it is a lower bound) of the median run."""
        values = sorted(run["classes"][name][which] for run in self.runs[system, load])
        seconds, reached = values[len(values) // 2]
        return seconds, not reached

    def repeats(self):
        """How many runs each, in words."""
        counts = {}
        for (name, _), runs in self.runs.items():
            counts[name] = min(counts.get(name, 99), len(runs))
        most = max(counts.values())
        fewer = [f"{SYSTEMS[name].title} {count}" for name, count in counts.items() if count < most and name in SYSTEMS]
        return f"{most} runs each" + (f" ({', '.join(fewer)})" if fewer else "")


def jain(run):
    return run["jain"]


def drf(run):
    return run["drf"]


def use(run):
    return run["use"]


def refused(run):
    return run["provider_429s"]


def tries(run):
    return run["tries_per_admitted"]


def held(run):
    return run["slots_held"]


def seconds(value, bound=False):
    return f"{'≥ ' if bound else ''}{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def title(name):
    return f"**{SYSTEMS[name].title}**" if name in OURS else SYSTEMS[name].title


def lines(name):
    """Lines of configuration or code that hold the limit, without blank ones."""
    return sum(bool(line.strip()) for line in SYSTEMS[name](LOADS["tokens"]).config().splitlines())


def summary(results, systems):
    rows = []
    for name in systems:
        values = [results.median(name, load, jain) for load in LOADS]
        rows.append([
            title(name), *(f"{value:.2f}" if value < 0.995 else f"{value:.3f}" for value in values), f"{min(values):.3f}",
            f"{min(results.median(name, load, use) for load in LOADS):.2f}",
            f"{sum(results.median(name, load, refused) for load in LOADS):.0f}", lines(name), SYSTEMS[name].told])
    head = ["", *(f"`{load}`" for load in LOADS), "worst", "least use", "429s", "lines", "has to be told"]
    return table(head, rows)


def by_load(results, systems, load):
    rows = []
    for name in systems:
        shares = " ".join(f"{results.median(name, load, lambda run: run['classes'][one]['of_entitled']):.2f}" for one in LOADS[load].classes)
        p50, p99 = (results.wait(name, load, "high", which) for which in ("p50", "p99"))
        rows.append([
            title(name), f"{results.median(name, load, jain):.3f}", f"{results.median(name, load, drf):.3f}", shares,
            f"{results.median(name, load, use):.2f}", f"{results.median(name, load, refused):.0f}", f"{seconds(*p50)} / {seconds(*p99)}",
            f"{results.median(name, load, held):.1f}", f"{results.median(name, load, tries):.1f}"])
    head = ["", "Jain", "DRF", "of entitled: high, normal, low", "use", "429s", "high p50 / p99 s", "slots held", "tries"]
    return table(head, rows)


def targets(results):
    """(what, target, measured, whether it holds)."""
    worst = {name: min(results.median(name, load, jain) for load in LOADS) for name in OURS}
    drfs = min(results.median("gate", load, drf) for load in LOADS if LOADS[load].binding == "tokens")
    limited = sum(results.median("gate", load, refused) for load in LOADS if not LOADS[load].others_at)
    ratios = {}
    for load in ("requests", "tokens", "uneven"):
        naive, _ = results.wait("naive", load, "high", "p99")
        ours, _ = results.wait("gate", load, "high", "p99")
        ratios[load] = naive / ours
    rivals = [one.name for one in ALL if one.name not in OURS]
    best = {load: max(((results.median(name, load, jain), name) for name in rivals)) for load in LOADS}
    behind = {load: value - results.median("gate", load, jain) for load, (value, _) in best.items()}
    most = max(behind, key=behind.get)
    score = {name: statistics.mean(results.median(name, load, jain) for load in LOADS) for name in (one.name for one in ALL)}
    rival = max(rivals, key=score.get)
    out = [
        ("Jain, least over all loads, gate alone", "≥ 0.98", f"{worst['gate']:.3f}", worst["gate"] >= 0.98),
        ("the same under Temporal", "≥ 0.98", f"{worst['gate-temporal']:.3f}", worst["gate-temporal"] >= 0.98),
        ("dominant-resource fairness where LLM tokens bind", "≥ 0.99", f"{drfs:.3f}", drfs >= 0.99),
        ("429s of the provider (nobody else on the account)", "0", f"{limited:.0f}", limited == 0),
        ("high-class p99 against naive retry", "≥ 8 x lower", ", ".join(f"{load} {ratio:.0f} x" for load, ratio in ratios.items()) +
         " (lower bounds: naive p99 is often not reached in a run)", min(ratios.values()) >= 8),
        ("level with the best on its best ground", "Jain within 0.005",
         f"widest gap {behind[most]:+.3f} ({SYSTEMS[best[most][1]].title}, `{most}`)", behind[most] <= 0.005),
        ("ahead of every one over all loads", "highest mean Jain", f"{score['gate']:.3f}, next {SYSTEMS[rival].title} {score[rival]:.3f}",
         score["gate"] > score[rival]),
        ("the same told twice the caps instead of the caps", "highest mean Jain", f"{score['gate-mistold']:.3f}, least {worst['gate-mistold']:.3f}; use at least "
         f"{min(results.median('gate-mistold', load, use) for load in LOADS):.2f}", score["gate-mistold"] > score[rival]),
    ]
    if results.latency:
        added = results.latency["gate"]["added_p50_ms"]
        least = ", ".join(f"{results.latency[name]['added_p50_ms']:.2f} by {what}" for name, what in
                          [("noop", "a filter that does nothing"), ("unmatched", "this one for a call that no pool takes")] if name in results.latency)
        out.append(("added p50 over bare Envoy when no cap binds, other programs run between the calls", "< 0.1 ms",
                    f"{added:.2f} ms" + (f" ({least})" if least else ""), added < 0.1))
    for one in results.overhead:
        if (one["workers"], one["body"], one["filter"]) == (1, "1 KB", "gate"):
            added = one["added_p50_ms"]
            out.append(("the same, calls of one caller at full speed, Envoy on a core of its own", "< 0.1 ms", f"{added:.2f} ms", added < 0.1))
    return table(["target", "asked", "measured", ""], [[what, asked, measured, "held" if holds else "**missed**"]
                                                        for what, asked, measured, holds in out])


def better(results, systems):
    """Where a rival is better than the gate, by the numbers: a line for each rival and measure."""
    measures = [
        ("Jain", lambda name, load: results.median(name, load, jain), lambda theirs, ours: theirs > ours + 0.002, "{:.3f}"),
        ("high-class median wait", lambda name, load: results.wait(name, load, "high", "p50"), lambda theirs, ours: theirs < 0.8 * ours and ours > 0.3,
         "{:.1f} s"),
        ("high-class p99 wait", lambda name, load: results.wait(name, load, "high", "p99"), lambda theirs, ours: theirs < 0.9 * ours and ours > 0.5,
         "{:.1f} s"),
        ("provider 429s", lambda name, load: results.median(name, load, refused), lambda theirs, ours: theirs < ours, "{:.0f}"),
        ("tries per call", lambda name, load: results.median(name, load, tries), lambda theirs, ours: theirs < 0.9 * ours, "{:.1f}"),
        ("slots held", lambda name, load: results.median(name, load, held), lambda theirs, ours: theirs < ours - 0.3, "{:.1f}"),
    ]
    found = []
    for name in systems:
        parts = []
        for what, value, wins, form in measures if name not in OURS else []:
            won = []
            for load in LOADS:
                theirs, ours = value(name, load), value("gate", load)
                if isinstance(theirs, tuple):
                    (theirs, bound), (ours, _) = theirs, ours
                    if bound:
                        continue
                if wins(theirs, ours):
                    won.append((load, theirs, ours))
            if won:
                span, mine = (" to ".join(dict.fromkeys(form.format(end(one[at] for one in won)) for end in (min, max))) for at in (1, 2))
                where = "everywhere" if len(won) == len(LOADS) else "on " + ", ".join(f"`{load}`" for load, _, _ in won)
                parts.append(f"{what} {where} ({span} against {mine})")
        if parts:
            found.append(f"- {SYSTEMS[name].title}: " + "; ".join(parts) + ".")
    return "\n".join(found) or "By these numbers nowhere."


def latency(results):
    if not results.latency:
        return ""
    rows = [[one["title"], f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}", one["against"], f"{one['added_p50_ms']:.2f}", f"{one['added_p99_ms']:.2f}"]
            for one in results.latency.values()]
    return table(["", "p50 ms", "p99 ms", "against", "added p50", "added p99"], rows)


def figures(results, systems, directory):
    rows = [(SYSTEMS[name].title, {load: results.median(name, load, jain) for load in LOADS}) for name in systems]
    ours = [SYSTEMS[name].title for name in OURS]
    directory.mkdir(exist_ok=True)
    (directory / "compare-jain.svg").write_text(
        svg.dots("Jain's index of received over entitled share, by load", list(LOADS), rows, 0.5, 1.0, ours))
    waits = [(SYSTEMS[name].title, *results.wait(name, "tokens", "high", "p99")) for name in systems]
    (directory / "compare-p99.svg").write_text(svg.bars("p99 wait of the high class, load `tokens`", waits, ours, "s"))


def write(results_directory, docs):
    results = Results(results_directory)
    systems = [one.name for one in ALL if all(results.has(one.name, load) for load in LOADS)]
    missing = [one.name for one in ALL if one.name not in systems]
    if missing:
        print("no results of: " + ", ".join(missing), file=sys.stderr)
        return
    figures(results, systems, docs / "figures")
    loads = table(["load", "what", "requests / minute", "LLM tokens / minute", "callers high, normal, low", "mean cost of a call", "offered"], [
        [f"`{name}`", load.title, load.rpm, f"{load.tpm:,}", ", ".join(str(one.callers) for one in load.classes.values()),
         ", ".join(str(one.cost) for one in load.classes.values()), f"{load.offered():.1f} x"] for name, load in LOADS.items()])
    in_slot = ""
    if results.has("naive-in-slot", "tokens"):
        in_slot = (f"When a refused call sleeps in its slot instead (`naive-in-slot`, as SDKs do inside a worker), {results.median('naive-in-slot', 'tokens', held):.1f}"
                   f" of the {SLOTS} slots are held by waiting calls on `tokens`, against {results.median('gate', 'tokens', held):.1f} with the gate.\n\n")
    spread = max(results.spread("gate", load, jain) for load in LOADS)
    measured = "\n\n".join([
        f"Medians of {results.repeats()}. Versions: " + ", ".join(f"{name} {version}" for name, version in results.versions.items() if name != "cores")
        + f"; {results.versions['cores']} cores, shared with other work.",
        "## At a glance", "Jain's index by load, the worst of them, the least use of the binding limit, 429s of the provider over all six loads, lines of "
        "configuration or code that hold the limit, and what has to be known beforehand.", summary(results, systems),
        "![Jain](figures/compare-jain.svg)", "![Wait of the high class](figures/compare-p99.svg)",
        "## Against the targets", targets(results),
        f"Between the repeats, the gate's Jain differs by {spread:.3f} at most.",
        "## Where another is better", better(results, systems),
        "## Latency when no cap binds" if results.latency else "", latency(results),
        "## The loads", loads,
        "## Every load", in_slot + "\n\n".join(f"### `{name}`: {load.title}\n\n{by_load(results, systems, name)}" for name, load in LOADS.items()),
    ])
    page = docs / "comparison.md"
    head, _, tail = page.read_text().partition(MARK)
    _, _, tail = tail.partition(MARK)
    page.write_text(re.sub(r"\n{3,}", "\n\n", f"{head}{MARK}\n\n{measured}\n\n{MARK}{tail}"))
    print(f"{page}, and figures beside it ({PROVIDER_BURST_S} s of burst at the provider)")


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    write(here / "results", here.parent / "docs")
