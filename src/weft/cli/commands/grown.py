"""What `weft task` prints of a task that was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.cli.output import print_json, print_notes, print_scores, print_table, shown

if TYPE_CHECKING:
    from weft.growing.grown import Grown
    from weft.growing.zero_shot import ZeroShot


def tell(done: Grown, as_json: bool) -> None:
    """Print it: for people, or as one JSON object; notes go to standard error."""
    print_notes(done.notes)
    if as_json:
        print_json(done.as_dict())
        return
    print(f"{done.task} began at: {done.start}; head: {done.head}; trained: {_TRAINED[done.only]}")
    used, given = done.rows["train"], done.rows["train_given"]
    print(f"rows: {used:,} of {given:,} to train on, {done.rows['validation']:,} to validate on")
    print_scores(
        done.scores,
        title=f"{done.folder}: {done.task}, validation",
        baselines={"majority": {done.task: done.majority}},
    )
    print_unchanged(done.unchanged)
    print(f"bundle: {done.folder}")


_TRAINED = {
    "task": "what is its own",
    "head": "its head",
    "all": "all that the method trains",
}


def print_zero_shot(task: str, found: ZeroShot) -> None:
    """The table of `start: auto`: one row per start, the majority guess below."""
    rows: list[list[object]] = [
        [one.start, shown(found.metric, one.score), one.head, "taken" if one.start == found.best else ""]
        for one in found.candidates
    ]
    rows.append(["majority", shown(found.metric, found.majority), "", ""])
    title = f"{task}, zero-shot on {found.rows} rows"
    print_table(title, ["start", found.metric, "head", ""], rows)


def print_unchanged(unchanged: Mapping[str, str]) -> None:
    """The proof: every file that is the same, with its hash."""
    # not as the table's own title, which would be broken to its width
    print(f"unchanged, byte for byte: {len(unchanged)} files")
    if unchanged:
        print_table("", ["file", "sha256"], [[file, sha256] for file, sha256 in unchanged.items()])
