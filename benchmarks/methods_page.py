"""docs/results/methods.md from what `benchmarks.methods` wrote.

    python -m benchmarks.methods_page RUNS.jsonl [MORE.jsonl …]    # adds to docs/results/methods.json and .md
    python -m benchmarks.methods_page                              # the page alone, from methods.json

Of a run that is there twice the later one counts; runs with other settings than those in methods.json are
refused. `remarks`, a list of sentences there, is kept and ends up on the page: what was found out by hand has
its place there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "docs" / "results"

REFERENCE = {
    "full, proportional": 69.9,
    "full, square root": 72.0,
    "full": 72.0,
    "separate": 71.3,
    "morris": 69.9,
    "lora": 69.0,
    "lora, one for all tasks": 65.9,
}
"""A run made elsewhere: the average over seven tasks, without qnli, of whole validation sets; one seed."""

WITHOUT = "qnli"
RATES = 3
NAMES = {"full": "full, annealed", "morris": "morris, r 64", "lora": "lora, r 8, a set a task"}
METRICS = {"matthews": "MCC", "pearson": "r", "accuracy": "acc."}

Run = dict[str, Any]
"""One run of methods.json; see `shortened`."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="*", help="files of benchmarks.methods; none: only make the page")
    parser.add_argument("--results", default=str(RESULTS), help="the folder of methods.json and methods.md")
    args = parser.parse_args()
    folder = Path(args.results)
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / "methods.json"
    if args.runs:
        known = json.loads(raw.read_text()) if raw.is_file() else {}
        lines = [json.loads(line) for file in args.runs for line in Path(file).read_text().splitlines()]
        raw.write_text(compact(merged(known, gathered(lines))))
    found = json.loads(raw.read_text())
    (folder / "methods.md").write_text(page(found))
    print(f"{folder / 'methods.md'}: {len(found['runs'])} runs, {len(found['failed'])} failed")


def gathered(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs have in common, the runs in short, and those that failed."""
    latest = {line["key"]: line for line in lines if "error" not in line}
    failed = {line["key"]: line for line in lines if "error" in line and line["key"] not in latest}
    if not latest:
        raise SystemExit(f"no run has ended; {len(failed)} failed, the last: {[*failed][-1:]}")
    some = next(iter(latest.values()))
    setup = {key: some[key] for key in ("steps", "batch_size", "max_length", "seed", "jobs", "mps", "note")}
    return {
        "setup": {**setup, "machine": some["machine"], "encoder": some["parameters"]["encoder"]},
        "metrics": some["metrics"],
        "rows": {half: scores["rows"] for half, scores in some["scores"].items()},
        "runs": [shortened(line) for line in latest.values()],
        "failed": [
            {**{key: line[key] for key in ("row", "lr")}, "error": line["error"].strip()[-200:]}
            for line in failed.values()
        ],
    }


def merged(known: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """New runs beside those that are known; of two with one line and rate the new one counts.

    Args:
        known: what methods.json holds; may be empty.
        new: of `gathered`.
    """
    if not known:
        return {**new, "remarks": []}
    for key in ("setup", "metrics", "rows"):
        if known[key] != new[key]:
            raise SystemExit(f"{key} differs from that of the runs before: {new[key]}, not {known[key]}")
    runs = {(run["row"], run["lr"]): run for run in [*known["runs"], *new["runs"]]}
    failed = {(run["row"], run["lr"]): run for run in [*known["failed"], *new["failed"]]}
    left = [run for place, run in failed.items() if place not in runs]
    return {**new, "remarks": known["remarks"], "runs": list(runs.values()), "failed": left}


def shortened(line: dict[str, Any]) -> Run:
    """What is kept of a run."""
    spent, memory, engine = line["seconds"], line["memory"], line["engine_used"]
    kept = {key: line[key] for key in ("row", "method", "sampler", "lr")}
    return {
        **kept,
        "trained": line["parameters"]["trained"],
        "total_ratio": line["parameters"]["total_ratio"],
        "chosen_by": line["scores"]["chosen_by"]["tasks"],
        "reported": line["scores"]["reported"]["tasks"],
        "seconds": round(spent["train"] - spent["evaluation"], 1),
        "compiling": spent["compiling"],
        "waited": engine["waited"],
        "engine": engine["name"],
        "why": line["fell_back"] or engine["why"],
        # of a process's first run alone: a later one finds some of what it needs, and much that it does not
        "bytes": None if memory is None or memory["before"] else memory["allocated"],
    }


def compact(found: dict[str, Any]) -> str:
    """JSON with a line for each run."""
    rest = {key: value for key, value in found.items() if key != "runs"}
    head = json.dumps(rest, indent=1, ensure_ascii=False)[:-2]
    runs = ",\n  ".join(json.dumps(run, ensure_ascii=False) for run in found["runs"])
    return f'{head},\n "runs": [\n  {runs}\n ]\n}}\n'


def mean(scores: dict[str, float | None], without: str | None = None) -> float:
    """The average over tasks in percent; a score that is no number counts as 0."""
    found = [score or 0.0 for task, score in scores.items() if task != without]
    return 100 * sum(found) / len(found)


def chosen(runs: list[Run]) -> dict[str, Run]:
    """Of each row the run with the best average on the half that chooses."""
    best: dict[str, Run] = {}
    for run in runs:
        if run["row"] not in best or mean(run["chosen_by"]) > mean(best[run["row"]]["chosen_by"]):
            best[run["row"]] = run
    return best


def standard_error(scores: dict[str, float | None], metrics: dict[str, str], rows: dict[str, int]) -> float:
    """Of an average, in percent, for the rows there are: √(Σ v_t)/T.

    v_t is p·(1 − p)/n for an accuracy and (1 − r²)²/n for a correlation, which MCC is one of.
    """
    total = 0.0
    for task, score in scores.items():
        s = score or 0.0
        total += (s * (1 - s) if metrics[task] == "accuracy" else (1 - s * s) ** 2) / rows[task]
    return 100 * math.sqrt(total) / len(scores)


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    parts = [intro(found), unfinished(found), table(found), reading(found), beside(found), rates(found)]
    parts.append(made(found))
    return "\n\n".join(part for part in parts if part) + "\n"


def intro(found: dict[str, Any]) -> str:
    """What the page is about."""
    setup = found["setup"]
    return (
        "# Every method on GLUE-8 (offline files)\n\n"
        f"`minilm`, {len(found['metrics'])} tasks of GLUE, {setup['steps']:,} steps of {setup['batch_size']} "
        "examples, annealed sampling, one seed. Validation is cut into halves: one chooses among three "
        "learning rates, **the other is what is shown**. Raw figures: [methods.json](methods.json). "
        "Generated by `python -m benchmarks.methods_page`."
    )


def unfinished(found: dict[str, Any]) -> str:
    """What is still to be run, if anything is."""
    from benchmarks.methods import rows

    runs = Counter(run["row"] for run in found["runs"])
    names = [row.name for row in rows(None)]
    missing = [name for name in names if name not in runs]
    short = [name for name in names if 0 < runs[name] < RATES]
    told = []
    if missing:
        told.append(f"{len(missing)} of {len(names)} lines have not run: {'; '.join(missing)}")
    if short:
        told.append(f"Of {len(short)} lines not all three rates have run, so that less was chosen among")
    return f"**Unfinished**: {'. '.join(told)}." if told else ""


def table(found: dict[str, Any]) -> str:
    """The methods, best average first."""
    metrics, rows = found["metrics"], found["rows"]["reported"]
    heads = [f"{task} {METRICS[metric]}" for task, metric in metrics.items()]
    columns = ["method", *heads, "average", "±", "trained", "held", "lr", "s", "GiB", "engine"]
    lines = [columns, ["---", *["--:"] * (len(columns) - 2), "---"]]
    best = chosen(found["runs"])
    for run in sorted(best.values(), key=lambda run: -mean(run["reported"])):
        scores = run["reported"]
        lines.append(
            [
                f"`{run['row']}`" if run["row"] == run["method"] else run["row"],
                *("–" if score is None else f"{100 * score:.1f}" for score in scores.values()),
                f"**{mean(scores):.1f}**",
                f"{standard_error(scores, metrics, rows):.1f}",
                in_millions(run["trained"]),
                f"{run['total_ratio']:.2f}×",
                rate(run, found["runs"]),
                f"{run['seconds']:.0f}",
                memory_of(run, found["runs"]),
                run["engine"],
            ]
        )
    told = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    sizes = ", ".join(f"{task} {count}" for task, count in rows.items())
    return (
        f"{told}\n\n"
        "All scores in percent. **±**: one standard error of the average for the rows there are "
        f"({sizes}); another seed comes on top. **trained**: parameters that train, for all tasks together, "
        "heads left out; **held**: what serving all tasks holds, over one encoder. **lr**: ↑ is the largest "
        "of the three and ↓ the smallest: a rate outside might do better. **s**: seconds of training, "
        "without evaluation, while the other runs shared the GPU. **GiB**: the most that the "
        "tensors of such a run held at once, measured where it was the first of its process."
    )


def memory_of(run: Run, runs: list[Run]) -> str:
    """The GiB of a run of this method that was measured; they do not depend on rate and sampler."""
    alike = [other["bytes"] for other in runs if other["method"] == run["method"] and other["bytes"]]
    return f"{max(alike) / 2**30:.2f}" if alike else "–"


def in_millions(count: int) -> str:
    """1234567 → 1.23 M, with three digits."""
    return f"{count / 1e6:.3g} M" if count else "0"


def rate(run: Run, runs: list[Run]) -> str:
    """The chosen rate, and whether it lies at an edge of those that were tried."""
    tried = sorted(other["lr"] for other in runs if other["row"] == run["row"])
    edge = "" if len(tried) < 2 else {tried[0]: " ↓", tried[-1]: " ↑"}.get(run["lr"], "")
    few = "" if len(tried) >= 3 else f" of {len(tried)}"
    return f"{run['lr']:.1e}{edge}{few}"


def reading(found: dict[str, Any]) -> str:
    """What may be read from the table, and what not."""
    best = chosen(found["runs"])
    errors = [
        standard_error(run["reported"], found["metrics"], found["rows"]["reported"]) for run in best.values()
    ]
    apart = 2 * math.sqrt(2) * sum(errors) / len(errors)
    kept = [
        "## What may be read from it",
        "- That every method trains on real data, what it costs, and roughly where it ends up.",
        f"- Averages that are less than about {apart:.0f} points apart are not told apart by so few rows "
        "(two standard errors of a difference of independent runs; on the same rows a little less), and the "
        "seed comes on top. Single tasks much less so: on half of rte one standard error is about 4 points, "
        "on half of mrpc 3.",
        "- **Not** what a paper found: those are BERT-sized encoders, whole training sets, longer runs, "
        "rates tuned for each task, and often other samplers. Methods with few parameters need more steps.",
        "- **Not** GLUE: the files are parts. qqp has 29 % of GLUE's training rows and another validation "
        "split; mnli has 11 %, with too many neutral pairs, and matched validation alone; qnli's training "
        "rows are rebuilt from SQuAD.",
        "- `minilm` was itself trained, by contrast, on SNLI, MNLI, Quora and question–answer pairs: mnli, "
        "qqp, qnli, and what is close to them (rte, mrpc, stsb) are not new to it, and a frozen encoder "
        "looks better here than it would be. cola is what it knows least about.",
        "- Seconds are of runs that shared one GPU: an order of size, no benchmark. "
        "For that see docs/performance.md.",
    ]
    kept += [f"- {remark}" for remark in found.get("remarks", [])]
    return "\n".join(kept)


def beside(found: dict[str, Any]) -> str:
    """Our figures and those of a run made elsewhere."""
    best = chosen(found["runs"])
    lines = []
    for row, theirs in REFERENCE.items():
        if row not in best:
            continue
        run = best[row]
        reported = mean(run["reported"], WITHOUT)
        both = mean(whole(run, found["rows"]), WITHOUT)
        name = NAMES.get(row, row)
        lines.append(f"| {name} | {theirs:.1f} | {reported:.1f} | {both:.1f} | {both - theirs:+.1f} |")
    if not lines:
        return ""
    return (
        "## Beside a run made elsewhere\n"
        f"Its averages are over the seven tasks without {WITHOUT}, on whole validation sets, one seed. "
        "*Both halves* is nearest to that: the mean of the two, by their rows; the rate was chosen on one of "
        "them.\n\n| | elsewhere | here, reported half | here, both halves | difference |\n"
        "|---|--:|--:|--:|--:|\n" + "\n".join(lines)
    )


def whole(run: Run, rows: dict[str, dict[str, int]]) -> dict[str, float | None]:
    """The mean of the two halves' scores, by their rows."""
    found: dict[str, float | None] = {}
    for task in run["reported"]:
        a, b = rows["chosen_by"][task], rows["reported"][task]
        found[task] = (a * (run["chosen_by"][task] or 0.0) + b * (run["reported"][task] or 0.0)) / (a + b)
    return found


def rates(found: dict[str, Any]) -> str:
    """What each rate gave."""
    rows: dict[str, list[Run]] = {}
    for run in found["runs"]:
        rows.setdefault(run["row"], []).append(run)
    best = chosen(found["runs"])
    lines = []
    for row in sorted(rows):
        cells = []
        for run in sorted(rows[row], key=lambda run: run["lr"]):
            told = f"{run['lr']:.1e}: {mean(run['chosen_by']):.1f} / {mean(run['reported']):.1f}"
            cells.append(f"**{told}**" if run is best[row] else told)
        cells += ["–"] * (3 - len(cells))
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    told = "## The three rates\nAverage on the half that chooses / on the other; the chosen one is bold.\n\n"
    told += "| | | | |\n|---|---|---|---|\n" + "\n".join(lines)
    if found["failed"]:
        told += "\n\nRuns that did not end:\n"
        told += "\n".join(
            f"- {run['row']}, {run['lr']:.1e}: {run['error'].splitlines()[-1]}" for run in found["failed"]
        )
    return told


def made(found: dict[str, Any]) -> str:
    """How the figures came about."""
    setup = found["setup"]
    machine = setup["machine"]
    engines: dict[str, list[str]] = {}
    for run in chosen(found["runs"]).values():
        if run["engine"] != "graph":
            engines.setdefault(f"`{run['engine']}`, {run['why'] or 'as asked'}", []).append(run["row"])
    odd = "; ".join(f"{', '.join(sorted(rows))}: {why}" for why, rows in engines.items())
    overlap = "by MPS at the same time" if setup["mps"] else "in turns"
    note = f" {setup['note']}" if setup["note"] else ""
    return (
        "## How it was made\n"
        "`python -m benchmarks.methods --root DATA --jobs "
        f"{setup['jobs']}{' --mps' if setup['mps'] else ''}`, on {machine['device']} with "
        f"{machine['cores']} cores, torch {machine['torch']}, weft {machine['weft']}; {setup['jobs']} runs "
        f"side by side, {overlap}.{note}\n\n"
        f"Rows of {setup['max_length']} tokens at the most, bf16, AdamW, linear schedule with 6 % warm-up, "
        f"seed {setup['seed']}, the weights after the last step. Rates are the method's default times ⅓, 1 "
        "and 3, or times 1, 3 and 10 where the encoder is frozen; methods have their default settings. "
        "Halves are drawn by weft's own `halves` and are the same for every run."
        + (f" Engines other than `graph`: {odd}." if odd else "")
    )


if __name__ == "__main__":
    main()
