"""Drafting a run file from data files: the function behind `weft new`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.config.reading import Reading, parse
from weft.config.run_file import read_run
from weft.data.drafting.draft import TaskDraft, draft_task
from weft.data.drafting.grouping import group_files
from weft.data.drafting.question import Choose, take_guess
from weft.errors import WeftError
from weft.utils.files import write_output
from weft.utils.temporary import sweep_leftovers
from weft.workflows.new.run_file_text import run_file_text
from weft.workflows.new.train_settings import train_settings


@dataclass(frozen=True)
class NewRunFile:
    """A drafted run file.

    Attributes:
        path: where it was written.
        text: its text.
        tasks: the drafted tasks.
        train: its `train` section.
    """

    path: Path
    text: str
    tasks: tuple[TaskDraft, ...]
    train: dict[str, Any]

    @property
    def unsure(self) -> list[str]:
        """The guesses that the data does not settle, one line each."""
        lines = []
        for draft in self.tasks:
            for question, answer in draft.unsure:
                others = [other for other in question.others if other != answer]
                also = f"; other candidates: {', '.join(others[:5])}" if others else ""
                lines.append(f"{draft.name}: {question.about} {answer}: {question.reason}{also}")
        return lines

    @property
    def notes(self) -> list[str]:
        """What a user should know about the tasks, one line each."""
        return [f"{draft.name}: {note}" for draft in self.tasks for note in draft.notes]

    @property
    def next_commands(self) -> list[str]:
        """The commands to type next."""
        return _next(self.path)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `weft new --json` prints it."""
        tasks = {
            draft.name: {"settings": draft.settings, "rows": draft.rows, "labels": draft.labels}
            for draft in self.tasks
        }
        return {
            "run_file": str(self.path),
            "tasks": tasks,
            "train": self.train,
            "unsure": self.unsure,
            "notes": self.notes,
        }


def new_run_file(
    files: Sequence[str | Path] = (),
    out: str | Path = "run.yaml",
    *,
    tasks: Mapping[str, Sequence[str | Path]] | None = None,
    encoder: str = "minilm",
    method: str = "lora",
    fixed: Mapping[str, str] | None = None,
    choose: Choose = take_guess,
    force: bool = False,
) -> NewRunFile:
    """Draft a run file from data files and write it.

    Formats, splits, text and label columns, kinds and labels are guessed from the files; each guess has a
    comment in the run file. Of large files only the first records are read. No torch is imported.

    Example:
        >>> from weft.workflows.new.new import new_run_file
        >>> drafted = new_run_file(["reviews.csv"], "run.yaml")
        >>> drafted.unsure
        ['reviews: kind classify: whole numbers may be classes or a scale; other candidates: regress']

    Args:
        files: data files, or folders with data files; files that belong together become one task.
        out: the run file to write.
        tasks: tasks by name with their files, in the order train, validation, test.
        encoder: the encoder of the run file.
        method: the method of the run file.
        fixed: answers given beforehand, by `texts`, `label` and `kind`; they apply to every task.
        choose: answers questions that the data does not settle; by default the guess is taken.
        force: whether to overwrite an existing file.

    Raises:
        WeftError: the file exists, a data file cannot be read, or has no column of texts or labels.
    """
    target = Path(out)
    _check_target(target, force)
    named = {name: [Path(file).expanduser() for file in of_task] for name, of_task in (tasks or {}).items()}
    groups = group_files([Path(file).expanduser() for file in files], named)
    if not groups:
        raise WeftError("no data files; expected at least one: weft new FILE")
    folder = Path(os.path.realpath(target.parent))
    drafts = [draft_task(group, choose, fixed, lambda path: path_from(folder, path)) for group in groups]
    train, comments = train_settings(drafts)
    header = [
        "A draft by `weft new`: check the guesses, which are stated in comments, then",
        *(f"  {command}" for command in _next(target)),
    ]
    text = run_file_text(encoder, method, drafts, train, comments, header)
    # a mistake in the encoder or the method is reported before anything is written
    reading = Reading(str(target), target.parent)
    raw = parse(text, reading)
    for draft in drafts:
        if draft.sample_labels:  # a task without labels would be read whole to find them
            raw["tasks"][draft.name]["labels"] = draft.sample_labels
    read_run(raw, reading, ())
    try:
        write_output(target, text, replace=force)
    except FileExistsError:  # created by somebody else since the check
        raise _exists(target) from None
    return NewRunFile(target, text, tuple(drafts), train)


def path_from(folder: Path, path: Path) -> str:
    """Return a file's path relative to a folder, or its absolute path if that is shorter."""
    # by real paths: `..` after a symbolic link leads elsewhere
    real = os.path.realpath(path)
    try:
        relative = os.path.relpath(real, folder)
    except ValueError:  # another drive
        return real
    return relative if len(relative) <= len(real) else real


def _next(target: Path) -> list[str]:
    name = shlex.quote(str(target))
    return [f"weft check {name}", f"weft train {name} --out runs/first"]


def _check_target(target: Path, force: bool) -> None:
    if target.is_dir():
        raise WeftError(f"{target}: this is a folder; expected the name of a run file: --out run.yaml")
    sweep_leftovers(target.parent, target.name)
    if target.exists() and not force:
        raise _exists(target)
    if not target.parent.is_dir():
        raise WeftError(
            f"{target}: there is no folder {target.parent}; create it first: mkdir -p {target.parent}"
        )


def _exists(target: Path) -> WeftError:
    return WeftError(f"{target} exists; to overwrite it add --force, or choose another name: --out FILE")
