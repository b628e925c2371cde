"""The runs of the table of methods: what is stored, which run of a row is chosen, and averages."""

from __future__ import annotations

import json
import math
from typing import Any

Run = dict[str, Any]
"""One run of methods.json; see `shortened`."""


def gathered(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarize runs: the common settings, one short entry per run, and the failed runs."""
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
    """Add new runs to the known ones; a new run replaces a known one of the same row and rate.

    Args:
        known: the contents of methods.json; may be empty.
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
    """The short entry of a run."""
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
    """JSON with one line per run."""
    rest = {key: value for key, value in found.items() if key != "runs"}
    head = json.dumps(rest, indent=1, ensure_ascii=False)[:-2]
    runs = ",\n  ".join(json.dumps(run, ensure_ascii=False) for run in found["runs"])
    return f'{head},\n "runs": [\n  {runs}\n ]\n}}\n'


def mean(scores: dict[str, float | None], without: str | None = None) -> float:
    """The average over tasks in percent; a score that is not a number counts as 0."""
    found = [score or 0.0 for task, score in scores.items() if task != without]
    return 100 * sum(found) / len(found)


def chosen(runs: list[Run]) -> dict[str, Run]:
    """The run of each row with the best average on the half that chooses."""
    best: dict[str, Run] = {}
    for run in runs:
        if run["row"] not in best or mean(run["chosen_by"]) > mean(best[run["row"]]["chosen_by"]):
            best[run["row"]] = run
    return best


def standard_error(scores: dict[str, float | None], metrics: dict[str, str], rows: dict[str, int]) -> float:
    """The standard error of an average in percent, from the number of rows: √(Σ v_t)/T.

    v_t is p·(1 − p)/n for an accuracy and (1 − r²)²/n for a correlation, such as MCC.
    """
    total = 0.0
    for task, score in scores.items():
        s = score or 0.0
        total += (s * (1 - s) if metrics[task] == "accuracy" else (1 - s * s) ** 2) / rows[task]
    return 100 * math.sqrt(total) / len(scores)


def whole(run: Run, rows: dict[str, dict[str, int]]) -> dict[str, float | None]:
    """The mean of the two halves' scores, weighted by their rows."""
    found: dict[str, float | None] = {}
    for task in run["reported"]:
        a, b = rows["chosen_by"][task], rows["reported"][task]
        found[task] = (a * (run["chosen_by"][task] or 0.0) + b * (run["reported"][task] or 0.0)) / (a + b)
    return found
