"""Checks of a run's folder before anything is read or written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from weft.errors import WeftError
from weft.training.run.resume import differences
from weft.utils.files import sweep


def check_folder(folder: Path, resolved: dict[str, Any], resume: bool) -> None:
    """Check that a new run's folder is empty, or that a folder to resume has a run with these settings."""
    file = folder / "run.yaml"
    if resume:
        if not file.is_file():
            raise WeftError(f"{folder} has no run to resume: run.yaml is missing; leave out --resume")
        if (folder / "metrics.json").is_file():
            raise WeftError(
                f"the run in {folder} has ended; see it with: weft evaluate {folder}\n"
                f"  to train its model further, start a new run from it: add start={folder} and a different "
                "--out, without --resume"
            )
        before = yaml.safe_load(file.read_text(encoding="utf-8"))
        differs = differences(before, json.loads(json.dumps(resolved)))
        if differs:
            raise WeftError(
                f"the run in {folder} was started with different settings and cannot continue with these:\n"
                + "\n".join(differs)
                + _more_steps(folder, differs)
            )
    elif folder.is_file():
        raise WeftError(f"{folder} is a file; expected a folder as --out")
    elif folder.is_dir():
        sweep(folder, ".run.yaml.new")  # left by a run that was killed while it wrote run.yaml
        if (folder / "metrics.json").is_file():
            raise WeftError(f"{folder} holds a finished run; set a different --out, or delete the folder")
        if file.is_file():
            raise WeftError(f"{folder} holds a run; continue it with --resume, or set a different --out")
        if any(folder.iterdir()):
            raise WeftError(f"{folder} is not empty and holds no run; set a different --out")


def _more_steps(folder: Path, differs: Sequence[str]) -> str:
    """What to do if only the number of steps differs: schedules and samplers depend on it."""
    if len(differs) != 1 or not differs[0].startswith("  train.steps:"):
        return ""
    return (
        "\n  the learning rate and the sampler depend on the number of steps: finish this run with its own "
        f"number, then train further in a new run: start={folder} and a different --out, without --resume"
    )
