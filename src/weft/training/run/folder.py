"""Checks of a run's folder before anything is read or written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.writing import writing_bundle
from weft.errors import WeftError, words
from weft.evaluation.run_metrics import ERRORS
from weft.evaluation.run_metrics import FILES as METRICS
from weft.training.run.checkpoint_files import last_checkpoint
from weft.training.run.recorded import as_yaml, check_settings, start_from_run
from weft.utils.files import new_folder, sweep, write_text
from weft.utils.lock import LOCK, held
from weft.utils.plain_files import check_not_linked, check_plain_entries
from weft.utils.temporary import is_leftover_name, sweep_leftovers

if TYPE_CHECKING:
    from weft.model.model import Model


class RunEnded(WeftError):
    """A run that was to be resumed has ended already. `weft train --resume` says so with exit code 0."""


FILES = (
    *("run.yaml", "log.jsonl", *METRICS.values(), *ERRORS.values()),
    *("checkpoints", "bundle", "tensorboard"),
)
"""What a run, and an evaluation of it, write into its folder."""
FOREIGN = ("wandb",)
"""Folders that other programs write there. They may hold links; weft reads nothing of them."""
REPORTS = ("report.html", "similarity.json", "covariance.json")
"""What `weft report` writes into it, and the results of `weft show` that it reads there."""


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
        for name in FOREIGN:
            check_not_linked(folder / name, "a run")
        without = words("--resume", "resume=True")
        if not file.is_file() and last_checkpoint(folder / "checkpoints") is None:
            raise WeftError(f"{folder} has no run to resume: run.yaml is missing; leave out {without}")
        check_settings(folder, json.loads(json.dumps(resolved)))
        if (folder / "metrics.json").is_file():
            see = words(f"weft evaluate {folder}", f"weft.evaluate({str(folder)!r})")
            raise RunEnded(
                f"the run in {folder} has ended, and nothing is left to do; see it with: {see}\n"
                f"  to train its model further, start a new run from it: {start_from_run(folder)} and a "
                f"different {out}, without {without}"
            )
    elif folder.is_file():
        raise WeftError(f"{folder} is a file; expected a folder as {out}")
    elif folder.is_dir():
        sweep(folder, ".run.yaml.new")  # left by a run of an earlier version that was killed
        sweep_leftovers(folder)
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
        if any(not is_leftover_name(path.name) for path in folder.iterdir()):
            raise WeftError(f"{folder} is not empty and holds no run; set a different {out}")


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder unless it is empty, or a run and nothing but a run."""
    names = sorted(path.name for path in folder.iterdir() if not is_leftover_name(path.name))
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
    known = (*FILES, *REPORTS)
    return name.removeprefix(".").startswith(known) if name.startswith(".") else name in (*known, *FOREIGN)


def begin_folder(folder: Path, resolved: dict[str, Any], overwrite: bool) -> None:
    """Write run.yaml into a new folder; with `overwrite` into one that replaces the old folder at once."""
    text = as_yaml(resolved)
    if overwrite and folder.is_dir():
        check_replaceable(folder)  # again: files may have been added while the data was read
        # nobody may be changing the old bundle while it is deleted
        old_bundle = writing_bundle(folder / "bundle", words("weft train", "weft.train"), at_once=True)
        with old_bundle, new_folder(folder) as work:
            write_text(work / "run.yaml", text)
            if (lock := held(folder / LOCK)) is not None:
                lock.follow(work)
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "run.yaml", text)


def sweep_run(folder: Path) -> None:
    """Remove what killed processes have left in a run's folder; the caller holds its lock."""
    sweep_leftovers(folder)
    sweep_leftovers(folder / "checkpoints")
    # of earlier versions
    sweep(folder, ".run.yaml.new", ".metrics.json.new", ".bundle-*")
    sweep(folder / "checkpoints", ".step-*", ".best-*", ".tmp??????")


def check_apart(model: Model, folder: Path) -> None:
    """Refuse to replace a folder that holds the encoder of the model."""
    source = model.encoder_source.source
    if source is not None and Path(source).resolve().is_relative_to(folder.resolve()):
        raise WeftError(
            f"{folder} holds the encoder of this model ({source}), which overwrite=True would delete: set a "
            "different out"
        )
