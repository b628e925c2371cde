"""Damaged task files, for `weft task add` and `weft task retrain`."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.areas.run_files import known_keys, overrides
from tests.fuzz.base import TRAIN, Base
from tests.fuzz.case import Case
from tests.fuzz.yaml_damage import damaged_yaml


def build_task_file(draw: Random, base: Base, folder: Path) -> Case:
    """A task file that is damaged, beside a sound bundle."""
    adds = draw.random() < 0.7
    name = "new" if adds else "cat"
    data = base.run_file.parent
    task: dict[str, Any] = {"labels": ["no", "yes"]}
    task |= {split: str(data / f"cat.{split}.jsonl") for split in ("train", "validation")}
    document = {
        "tasks": {name: task},
        "train": {**TRAIN, "steps": 1},
        "grow": draw.choice(
            [{}, {"only": "head"}, {"start": "cat"}, {"label_map": {"cat": {"no": "no", "yes": "yes"}}}]
        ),
    }
    file = folder / "task.yaml"
    file.write_bytes(damaged_yaml(draw, document, known_keys()))
    words = overrides(draw) if draw.random() < 0.15 else []
    bundle = base.run(draw.choice(["ended", "kinds"])) / "bundle"
    arguments = ("add", str(bundle), "task.yaml") if adds else ("retrain", str(bundle), "cat", "task.yaml")
    steps = "train.steps=1"  # whatever the file says
    return Case(("task", *arguments, *words, steps, "--out", "new"), codes=(1, 2), inputs=(bundle, file))
