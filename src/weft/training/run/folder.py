"""Checks of a run's folder before anything is read or written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from weft.errors import WeftError, words
from weft.training.run.resume import differences
from weft.utils.files import new_folder, sweep, write_text
from weft.utils.plain_files import check_plain_entries
from weft.utils.safe_yaml import read_yaml

if TYPE_CHECKING:
    from weft.model.model import Model


FILES = ("run.yaml", "log.jsonl", "metrics.json", "checkpoints", "bundle", "tensorboard")
"""What a run writes into its folder."""


def check_folder(folder: Path, resolved: dict[str, Any], resume: bool, overwrite: bool = False) -> None:
    """Check that a new run's folder is empty, or that a folder to resume has a run with these settings.

    Args:
        folder: the run's folder.
        resolved: the present settings.
        resume: whether the run in the folder is continued.
        overwrite: whether a run in the folder may be replaced; anything else in it is refused.
    """
    file = folder / "run.yaml"
    out = words("--out", "out")
    if resume and overwrite:
        raise WeftError("found resume=True and overwrite=True; expected one of them")
    if resume:
        check_plain_entries(folder, FILES, "a run")  # it writes into them
        without = words("--resume", "resume=True")
        if not file.is_file():
            raise WeftError(f"{folder} has no run to resume: run.yaml is missing; leave out {without}")
        if (folder / "metrics.json").is_file():
            see = words(f"weft evaluate {folder}", f"weft.evaluate({str(folder)!r})")
            raise WeftError(
                f"the run in {folder} has ended; see it with: {see}\n"
                f"  to train its model further, start a new run from it: {_start(folder)} and a different "
                f"{out}, without {without}"
            )
        before = read_yaml(file)
        if not isinstance(before, dict):
            raise WeftError(f"{file}: found {type(before).__name__}; expected the settings that a run writes")
        differs = differences(before, json.loads(json.dumps(resolved)))
        if differs:
            raise WeftError(
                f"the run in {folder} was started with different settings and cannot continue with these:\n"
                + "\n".join(differs)
                + _more_steps(folder, differs)
            )
    elif folder.is_file():
        raise WeftError(f"{folder} is a file; expected a folder as {out}")
    elif folder.is_dir():
        sweep(folder, ".run.yaml.new")  # left by a run that was killed while it wrote run.yaml
        if overwrite:
            check_replaceable(folder)
            return
        if (folder / "metrics.json").is_file():
            instead = words("delete the folder", "replace it with overwrite=True")
            raise WeftError(f"{folder} holds a finished run; set a different {out}, or {instead}")
        if file.is_file():
            instead = words(f"set a different {out}", f"replace it with overwrite=True, or set another {out}")
            resuming = words("--resume", "resume=True")
            raise WeftError(f"{folder} holds a run; continue it with {resuming}, or {instead}")
        if any(folder.iterdir()):
            raise WeftError(f"{folder} is not empty and holds no run; set a different {out}")


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder unless it is empty, or a run and nothing but a run."""
    names = sorted(path.name for path in folder.iterdir())
    other = [name for name in names if not _of_a_run(name)]
    if folder.is_symlink():
        reason = "is a link"
    elif names and not (folder / "run.yaml").is_file():
        reason = "is not empty and holds no run"
    elif other:
        reason = f"holds more than a run: {', '.join(other[:3])}{', …' * (len(other) > 3)}"
    else:
        return
    raise WeftError(f"{folder} {reason}; overwrite=True replaces only runs: set a different out")


def _of_a_run(name: str) -> bool:
    # .bundle-…, .metrics.json.new: what a killed run has left
    return name.removeprefix(".").startswith(FILES) if name.startswith(".") else name in FILES


def _start(folder: Path) -> str:
    """How to start a new run from a finished one."""
    return words(f"add start={folder}", f"call weft.start_from(model, {str(folder)!r}) before weft.train")


def _more_steps(folder: Path, differs: Sequence[str]) -> str:
    """What to do if only the number of steps differs: schedules and samplers depend on it."""
    if len(differs) != 1 or not differs[0].startswith("  train.steps:"):
        return ""
    return (
        "\n  the learning rate and the sampler depend on the number of steps: finish this run with its own "
        f"number, then train further in a new run: {_start(folder)} and a different {words('--out', 'out')}, "
        f"without {words('--resume', 'resume=True')}"
    )


def begin_folder(folder: Path, resolved: dict[str, Any], overwrite: bool) -> None:
    """Write run.yaml into a new folder; with `overwrite` into one that replaces the old folder at once."""
    text = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True)
    if overwrite and folder.is_dir():
        check_replaceable(folder)  # again: files may have been added while the data was read
        with new_folder(folder) as work:
            write_text(work / "run.yaml", text)
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "run.yaml", text)


def check_apart(model: Model, folder: Path) -> None:
    """Refuse to replace a folder that holds the encoder of the model."""
    source = model.encoder_source.source
    if source is not None and Path(source).resolve().is_relative_to(folder.resolve()):
        raise WeftError(
            f"{folder} holds the encoder of this model ({source}), which overwrite=True would delete: set a "
            "different out"
        )
