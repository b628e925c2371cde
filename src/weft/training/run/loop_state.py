"""Saving the state of a training loop as a checkpoint, and restoring it from the newest undamaged one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, words
from weft.training.run.checkpoint import environment, save_checkpoint
from weft.training.run.checkpoint_files import read_state, undamaged_checkpoint
from weft.training.run.folder import sweep_run
from weft.training.run.recorded import restore_settings
from weft.utils.checksums import SEAL, start_sha256

if TYPE_CHECKING:
    from weft.training.run.loop import Loop


def save_loop(loop: Loop) -> None:
    """Write a checkpoint of a loop; all processes must call this, and the main one writes."""
    loop.state.parts, tensors = loop.components.states()
    best = loop.validation.best
    facts = {
        "loop": asdict(loop.state),
        "data": loop.data,
        "log_bytes": loop.log.size,
        "log_sha256": loop.log.sha256(),
        "settings": loop.settings,
        "best": loop.processes.on_main(lambda: best.needed(loop.state)),
        **environment(loop.processes.world),
    }
    step, processes = loop.state.step, loop.processes
    with loop.driver.engine.at_rest():
        save_checkpoint(loop.checkpoints, step, loop.model, loop.optimizers, facts, tensors, processes)
    if processes.is_main:
        best.sweep()


def restore_loop(loop: Loop, folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """Restore the loop from the newest undamaged checkpoint.

    A run that was killed before its first checkpoint starts from the beginning.

    Args:
        loop: the loop of the same run; its `settings` are the content of run.yaml.
        folder: the run's folder.

    Returns:
        The JSON state of the checkpoint, or None if there is no checkpoint; and notes for the user.
    """
    processes = loop.processes

    def prepare() -> tuple[Path | None, list[str]]:
        sweep_run(folder)
        checkpoint, notes = undamaged_checkpoint(loop.checkpoints)
        notes += restore_settings(folder, loop.settings)
        if checkpoint is None:
            notes.append(f"{folder} has no checkpoint: the run starts from the beginning")
        else:
            notes += _log_notes(folder, read_state(checkpoint))
        return checkpoint, notes

    checkpoint, notes = processes.on_main(prepare)
    if checkpoint is None:
        return None, notes
    state = read_state(checkpoint)
    try:
        _check_same(loop, checkpoint, state["data"])
        return loop.resume(checkpoint), notes
    except WeftError:
        raise
    except Exception as wrong:
        if SEAL in state:
            raise
        # without checksums, damage shows where the values are used, as errors of any kind
        raise WeftError(
            f"{checkpoint} is damaged: {wrong!r}\n  it was written by a version of weft that recorded no "
            f"checksums; restore it from a copy, or start a new run with a different {words('--out', 'out')}"
        ) from None


def _check_same(loop: Loop, checkpoint: Path, data: dict[str, Any]) -> None:
    """Refuse to continue with different data, settings or a different encoder."""
    if data.get("tokens", 1) != loop.data["tokens"]:
        raise WeftError(
            f"{checkpoint} was written by an earlier version of weft, which tokenized texts differently "
            f"(format {data.get('tokens', 1)}, now {loop.data['tokens']}).\n"
            f"  finish the run with that version, or start a new run with a different {words('--out', 'out')}"
        )
    for key, noun in (("encoder", "encoder weights"), ("rows", "data"), ("plan", "data or settings")):
        if data[key] != loop.data[key]:
            tasks = _changed(loop, data[key]) if key == "rows" else ""
            raise WeftError(_different(checkpoint, f"{noun}{tasks}"))
    files: Any = loop.data["encoder_files"]
    for name, sha256 in data.get("encoder_files", {}).items():
        if files.get(name) != sha256:
            raise WeftError(_different(checkpoint, f"contents of the encoder's file {name}"))


def _different(checkpoint: Path, what: str) -> str:
    return (
        f"{checkpoint} was written with different {what}, which have changed since.\n"
        f"  start a new run with a different {words('--out', 'out')}, or restore what was there"
    )


def _changed(loop: Loop, before: list[str]) -> str:
    """Name the splits whose rows have changed."""
    names = [
        *(f"{name}/train" for name in loop.names),
        *(f"{name}/validation" for name in loop.validation.validation),
    ]
    if len(before) != len(names):
        return ""
    now: Any = loop.data["rows"]
    changed = [name for name, a, b in zip(names, before, now, strict=True) if a != b]
    return f" of {', '.join(changed)}"


def _log_notes(folder: Path, state: dict[str, Any]) -> list[str]:
    """A note if the log is not as it was when the checkpoint was written; the run does not depend on it."""
    log = folder / "log.jsonl"
    size = log.stat().st_size if log.is_file() else 0
    if size < state["log_bytes"]:
        return [f"{log} has {size} bytes, at the checkpoint it had {state['log_bytes']}: lines are missing"]
    if "log_sha256" in state and start_sha256(log, state["log_bytes"]) != state["log_sha256"]:
        return [f"{log} is damaged or was edited; the run does not depend on it"]
    return []
