"""The settings that a run was started with: in run.yaml, and once more in every checkpoint.

A run is resumed only with the same settings. If run.yaml is damaged, the copy in a checkpoint decides, and
run.yaml is written again. No torch is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from weft.errors import WeftError, words
from weft.training.run.checkpoint_files import checkpoints, read_state
from weft.training.run.resume import differences
from weft.utils.checksums import SEAL
from weft.utils.files import write_text
from weft.utils.safe_yaml import YamlError, parse_yaml

FILE = "run.yaml"
FORM: dict[str, Any] = {"method": dict | list, "heads": dict, "tasks": list, "train": dict}
"""The sections that run.yaml has, and their types."""


def check_settings(folder: Path, now: dict[str, Any]) -> None:
    """Refuse to resume a run with settings that differ from those that it was started with.

    Args:
        folder: the run's folder.
        now: the present settings, as JSON values.
    """
    recorded = _of_checkpoint(folder / "checkpoints")
    if recorded is not None and not differences(recorded, now):
        return  # whatever happened to run.yaml; see `restore_settings`
    try:
        before = _read(folder / FILE)
    except WeftError as damaged:
        if recorded is None:
            raise WeftError(
                f"{damaged}\n  restore it from a copy, or start a new run with a different "
                f"{words('--out', 'out')}"
            ) from None
        before = recorded
    if differs := differences(before, now):
        raise WeftError(
            f"the run in {folder} was started with different settings and cannot continue with these:\n"
            + "\n".join(differs)
            + _more_steps(folder, differs)
        )
    if recorded is not None and (differs := differences(recorded, now, places=False)):
        raise WeftError(
            f"{folder / FILE} is damaged or was edited: the checkpoints of the run have different settings:\n"
            + "\n".join(differs)
            + f"\n  restore {FILE} from a copy, or set these values as they were"
        )


def restore_settings(folder: Path, now: dict[str, Any]) -> list[str]:
    """Write run.yaml again if it is damaged; returns a note if it was.

    Args:
        folder: the folder of a run that `check_settings` accepts.
        now: the present settings, as JSON values.
    """
    path = folder / FILE
    try:
        differs = differences(_read(path), now)
    except WeftError as damaged:
        problem = str(damaged)
    else:
        if not differs:
            return []
        problem = f"{path} is damaged or was edited ({differs[0].strip()})"
    write_text(path, as_yaml(now))
    return [f"{problem}; it was written again from the settings in the checkpoint"]


def as_yaml(settings: dict[str, Any]) -> str:
    """The text of run.yaml."""
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def start_from_run(folder: Path) -> str:
    """How to start a new run from a finished one."""
    return words(f"add start={folder}", f"call weft.start_from(model, {str(folder)!r}) before weft.train")


def _of_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The settings in the newest checkpoint that has them; None if there is none."""
    for checkpoint in reversed(checkpoints(folder)):
        try:
            state = read_state(checkpoint)
        except WeftError:
            continue
        if SEAL in state and state.get("settings"):
            return dict(state["settings"])
    return None


def _read(path: Path) -> dict[str, Any]:
    """The content of run.yaml; raises WeftError if it is damaged."""
    try:
        settings = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WeftError(f"{path} is missing") from None
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror or wrong}") from None
    except (YamlError, UnicodeDecodeError) as wrong:
        raise WeftError(f"{path} is damaged: it is not YAML ({' '.join(str(wrong).split())})") from None
    for section, kind in FORM.items():
        value = settings.get(section) if isinstance(settings, dict) else None
        if not isinstance(value, kind):
            raise WeftError(f"{path} is damaged: {section} is {_shown(value)}; weft wrote settings there")
    return settings


def _shown(value: object) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _more_steps(folder: Path, differs: Sequence[str]) -> str:
    """What to do if only the number of steps differs: schedules and samplers depend on it."""
    if len(differs) != 1 or not differs[0].startswith(("  train.steps:", "  train.epochs:")):
        return ""
    return (
        "\n  the learning rate and the sampler depend on the number of steps: finish this run with its own "
        f"number, then train further in a new run: {start_from_run(folder)} and a different "
        f"{words('--out', 'out')}, without {words('--resume', 'resume=True')}"
    )
