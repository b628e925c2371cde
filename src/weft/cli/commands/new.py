"""`weft new`: draft a run file from data files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Json, NewEncoder
from weft.cli.output import print_json, print_table, print_text
from weft.errors import WeftError
from weft.utils.terminal import escaped_line

if TYPE_CHECKING:
    from weft.data.drafting.question import Question
    from weft.workflows.new.new import NewRunFile


def new(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…",
            help="data files, or folders with data files; x_train.csv and x_dev.csv become one task",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="NAME=FILE[,FILE…]",
            help="a task by name with its files, in the order train, validation, test; may be repeated",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="COLUMN[,COLUMN]", help="the column of the text, or of the two texts"),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="the column of the label")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="kind of the task: classify, regress, multilabel, …")
    ] = None,
    encoder: NewEncoder = "minilm",
    method: Annotated[str, typer.Option("--method", help="method of the run file")] = "lora",
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="run file to write")] = Path("run.yaml"),
    force: Annotated[bool, typer.Option("--force", help="overwrite the run file if it exists")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="take all guesses without asking; default without a terminal")
    ] = False,
    as_json: Json = False,
) -> None:
    """Draft a run file from your own data files.

    Guesses the format of each file, its text and label columns, the kind of task, the labels and the splits,
    and writes a run file with a comment beside each guess. On a terminal it asks where it is not sure. Of
    large files only the beginning is read.

    Example: weft new reviews.csv

    Example: weft new news_train.csv news_dev.csv --task tags=ner.conll --out run.yaml
    """
    from weft.data.drafting.question import take_guess
    from weft.workflows.new.new import new_run_file

    asking = not yes and not as_json and sys.stdin.isatty()
    answers = {"texts": text, "label": label, "kind": kind}
    drafted = new_run_file(
        files or [],
        out,
        tasks=_tasks(task or []),
        encoder=encoder,
        method=method,
        fixed={about: answer for about, answer in answers.items() if answer is not None},
        choose=_ask if asking else take_guess,
        force=force,
    )
    if as_json:
        print_json(drafted.as_dict())
        return
    _print(drafted)


def _tasks(options: list[str]) -> dict[str, list[Path]]:
    tasks: dict[str, list[Path]] = {}
    for option in options:
        name, equals, files = option.partition("=")
        paths = [Path(file) for file in files.split(",") if file]
        if not equals or not name.strip() or not paths:
            raise WeftError(f"--task {option!r}: expected NAME=FILE or NAME=FILE,FILE")
        tasks.setdefault(name.strip(), []).extend(paths)
    return tasks


def _ask(question: Question) -> str:
    """Ask on the terminal until the answer is a column, or a kind."""
    others = ", ".join(other for other in question.others if other != question.guess)
    print_text(f"{question.task}: {question.reason}")
    words = {"texts": "text column (two: A, B)", "label": "label column", "kind": "kind"}[question.about]
    while True:
        # escaped here: the prompt of a terminal does not go through standard output
        shown = f"  {words}{f', or {others}' if others else ''} [{question.guess}]"
        answer: str = typer.prompt(escaped_line(shown), default=question.guess, show_default=False)
        try:
            question.read(answer)
        except WeftError as wrong:
            print_text(f"  {wrong}")
            continue
        return answer


def _print(drafted: NewRunFile) -> None:
    splits = ("train", "validation", "test")
    rows: list[list[object]] = []
    for draft in drafted.tasks:
        label = draft.settings["label"]
        texts = ", ".join(draft.settings["texts"])
        cells = (
            draft.name,
            draft.settings["kind"],
            texts,
            label if isinstance(label, str) else ", ".join(label),
        )
        rows.append([*map(_cut, cells), *(draft.rows.get(split, "–") for split in splits)])
    print_table("", ["task", "kind", "texts", "label", *splits], rows)
    for draft in drafted.tasks:
        if draft.labels:
            print_text(f"labels of {draft.name}: {draft.labels}")
    for line in drafted.unsure:
        print_text(f"not sure: {line}")
    for line in drafted.notes:
        print_text(f"note: {line}")
    print_text(f"written: {drafted.path}, with a comment beside each guess")
    print("next:")
    for command in drafted.next_commands:
        print_text(f"  {command}")


def _cut(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
