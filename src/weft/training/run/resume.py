"""Whether settings are those that a run was begun with."""

from __future__ import annotations

import json
from typing import Any

from weft.errors import WeftError
from weft.methods import build_method
from weft.model.head_settings import HeadSettings
from weft.training.settings import Training

FREE = ("log_every", "tensorboard", "checkpoint_every", "starved", "parallel", "engine", "verify_engine")
"""Keys of `train` that may differ when a run is resumed: they change no weight beyond rounding."""


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What the settings of a run differ in from those that it was begun with, a line each.

    Args:
        before: what run.yaml says.
        now: the same of the settings given now.
    """
    before = _completed(before)
    lines = []
    for section in ("encoder", "method", "heads", "tasks", "start", "kernels"):
        lines += _told(section, before.get(section), now.get(section))
    old, new = before.get("train", {}), now["train"]
    for key in sorted(old.keys() | new.keys()):
        if key not in FREE and old.get(key) != new.get(key):
            lines.append(f"  train.{key}: {old.get(key)!r} then, {new.get(key)!r} now")
    return lines


def _told(place: str, then: Any, now: Any) -> list[str]:
    """What differs of two settings, as deep as both have the same keys."""
    if then == now:
        return []
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        found = []
        for number, (a, b) in enumerate(zip(then, now, strict=True)):
            name = (b.get("name") or b.get("suite")) if isinstance(b, dict) else None
            found += _told(f"{place}.{name or number}", a, b)
        return found
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [*then, *(key for key in now if key not in then)]
        return [line for key in keys for line in _told(f"{place}.{key}", then.get(key), now.get(key))]
    return [f"  {place}: {then!r} then, {now!r} now"]


def _completed(before: dict[str, Any]) -> dict[str, Any]:
    """What run.yaml says, with the defaults of settings that there were not when it was written."""
    try:
        method = json.loads(json.dumps(build_method(before["method"]).settings()))
        heads = HeadSettings(**before["heads"]).model_dump(mode="json")
        training = Training(**before["train"]).model_dump(mode="json")
        return {**before, "method": method, "heads": heads, "train": training}
    except (WeftError, KeyError, TypeError):
        return before
