"""The report that `weft task add` and `weft task retrain` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.cli.output import print_json, print_notes, print_scores, print_table, print_text
from weft.evaluation.scores import shown_metric

if TYPE_CHECKING:
    from weft.growing.grown import Grown
    from weft.growing.zero_shot import ZeroShot


def print_grown(done: Grown, as_json: bool) -> None:
    """Print the result of a training as tables or as one JSON object; notes go to standard error."""
    print_notes(done.notes)
    if as_json:
        print_json(done.as_dict())
        return
    print_text(f"task: {done.task}; initial values: {done.start}; head: {done.head}")
    print(f"trained: {_TRAINED[done.only]}")
    used, available = done.rows["train"], done.rows["train_given"]
    print(f"rows: {used:,} of {available:,} training rows used, {done.rows['validation']:,} validation rows")
    print_scores(
        done.scores,
        title=f"{done.folder}: {done.task}, validation",
        baselines={"majority": {done.task: done.majority}},
    )
    print_unchanged(done.unchanged)
    print_text(f"bundle: {done.folder}")


_TRAINED = {
    "task": "the parameters of this task",
    "head": "the head of this task",
    "all": "all parameters that the method trains",
}


def print_zero_shot(task: str, scores: ZeroShot) -> None:
    """Print the table of `start: auto`: the zero-shot score of each initialization, and of the majority."""
    rows: list[list[object]] = [
        [
            candidate.start,
            shown_metric(scores.metric, candidate.score),
            candidate.head,
            "chosen" if candidate.start == scores.best else "",
        ]
        for candidate in scores.candidates
    ]
    rows.append(["majority", shown_metric(scores.metric, scores.majority), "", ""])
    title = f"{task}: zero-shot score of each initialization, on {scores.rows} rows"
    print_table(title, ["start", scores.metric, "head", ""], rows)


def print_unchanged(unchanged: Mapping[str, str]) -> None:
    """Print every file of the bundle that is byte-identical to before, with its hash."""
    print(f"unchanged, byte for byte: {len(unchanged)} files")
    if unchanged:
        print_table("", ["file", "sha256"], [[file, sha256] for file, sha256 in unchanged.items()])
