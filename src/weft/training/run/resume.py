"""Compare settings with those that a run was started with."""

from __future__ import annotations

import json
from typing import Any

from weft.errors import WeftError
from weft.methods import build_method
from weft.model.head_settings import HeadSettings
from weft.tasks.in_memory import RowsRecord
from weft.training.settings import Training

FREE = (
    *("log_every", "trackers", "tensorboard", "checkpoint_every", "starved", "baselines"),
    *("parallel", "engine", "verify_engine", "measure_uncertainty"),
)
"""Keys of `train` that may differ when a run is resumed: they change no weight beyond rounding."""


PLACES = ("train", "validation", "test", "also", "root", "hub")
"""Keys of a task that say where its rows are."""


def differences(before: dict[str, Any], now: dict[str, Any], places: bool = True) -> list[str]:
    """The differences between settings and those that a run was started with, one line per difference.

    Args:
        before: the content of run.yaml.
        now: the present settings in the same form.
        places: whether the paths of the encoder, the data and the start count too. A folder may have moved; a
            checkpoint holds the hashes of what was there.
    """
    before = _completed(before)
    lines = []
    if not places:
        before, now = _without_places(before), _without_places(now)
    for section in ("encoder", "method", "heads", "tasks", "start", "kernels"):
        lines += _compare(section, before.get(section), now.get(section))
    old, new = before.get("train", {}), now["train"]
    for key in sorted(old.keys() | new.keys()):
        if key not in FREE and old.get(key) != new.get(key):
            lines.append(f"  train.{key}: {old.get(key)!r} then, {new.get(key)!r} now")
    return lines


def _without_places(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the paths of the encoder, the data and the start."""
    tasks = [
        {key: value for key, value in task.items() if key not in PLACES} if isinstance(task, dict) else task
        for task in settings.get("tasks", [])
    ]
    return {key: value for key, value in settings.items() if key not in ("encoder", "start")} | {
        "tasks": tasks
    }


def _compare(key: str, then: Any, now: Any) -> list[str]:
    """The differences between two settings, down to the deepest keys that both have."""
    if then == now:
        return []
    rows_then, rows_now = RowsRecord.of(then), RowsRecord.of(now)
    if rows_now is not None and (then is None or rows_then is not None):
        return _compare_rows(key, rows_then, rows_now)
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        lines = []
        for number, (a, b) in enumerate(zip(then, now, strict=True)):
            name = (b.get("name") or b.get("suite")) if isinstance(b, dict) else None
            lines += _compare(f"{key}.{name or number}", a, b)
        return lines
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [*then, *(new for new in now if new not in then)]
        return [line for k in keys for line in _compare(f"{key}.{k}", then.get(k), now.get(k))]
    return [f"  {key}: {then!r} then, {now!r} now"]


def _compare_rows(key: str, then: RowsRecord | None, now: RowsRecord) -> list[str]:
    """The difference between rows in memory; a run of an earlier version has no record of them."""
    if then is None:
        return []
    if then.rows != now.rows:
        return [f"  {key}: {then.rows} rows in memory then, {now.rows} now"]
    return [f"  {key}: {then.rows} rows in memory then and now, but not the same ones"]


def _completed(before: dict[str, Any]) -> dict[str, Any]:
    """The content of run.yaml, with defaults for settings that did not exist when it was written."""
    try:
        method = json.loads(json.dumps(build_method(before["method"]).settings()))
        heads = HeadSettings(**before["heads"]).model_dump(mode="json")
        training = Training(**before["train"]).model_dump(mode="json")
        return {**before, "method": method, "heads": heads, "train": training}
    except (WeftError, KeyError, TypeError):
        return before
