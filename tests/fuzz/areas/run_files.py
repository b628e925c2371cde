"""Damaged run files and odd `KEY=VALUE` settings, for the commands that read a run file."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.fuzz.base import Base
from tests.fuzz.case import Case
from tests.fuzz.value_damage import as_json, damaged_value, odd_value, to_bytes
from tests.fuzz.yaml_damage import SCALARS, damaged_yaml

COMMANDS = (
    *(("check", "--no-estimate"),) * 8,
    *(("check", "--no-estimate", "--json"),) * 2,
    *(("show", "params"), ("show", "plan"), ("show", "difficulty"), ("check",)),
    *(("train", "--out", "out", "train.steps=1", "train.batch_size=2"),) * 2,
)
"""What reads the file; a run that is accepted trains one step."""


@cache
def known_keys() -> tuple[str, ...]:
    """The names of all settings of a run file."""
    from weft.methods import METHODS
    from weft.model.head_settings import HeadSettings
    from weft.tasks.task import Task
    from weft.training.settings import LearningRates, Stop, Training

    settings = [Training, LearningRates, Stop, HeadSettings, *(METHODS[name] for name in METHODS)]
    names = {name for kind in settings for name in kind.model_fields}
    names |= {field.name for field in fields(Task)} | {
        "use",
        "suite",
        "root",
        "path",
        "columns",
        "options",
        "format",
    }
    return tuple(sorted(names))


@cache
def known_words() -> tuple[str, ...]:
    """Names that settings take as values: of methods, kinds, samplers and metrics."""
    from weft.methods import METHODS
    from weft.metrics import METRICS
    from weft.sampling import SAMPLERS
    from weft.tasks.kinds import KINDS

    return tuple(sorted({*METHODS, *KINDS, *SAMPLERS, *METRICS}))


@cache
def _methods() -> tuple[str, ...]:
    from weft.methods import METHODS

    return tuple(METHODS)


@cache
def _train_keys() -> tuple[str, ...]:
    from weft.training.settings import Training

    return tuple(Training.model_fields)


def run_file_values(draw: Random, base: Base) -> dict[str, Any]:
    """A correct run file as a nested value, with absolute paths."""
    source = base.run_file if draw.random() < 0.7 else base.kinds_file
    run: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    run["encoder"] = draw.choice([str(base.encoder)] * 4 + ["random:bert-tiny"])
    for name, task in run["tasks"].items():
        for split in ("train", "validation"):
            task[split] = str(source.parent / f"{name}.{split}.jsonl")
    if len(run["tasks"]) > 4:
        kept = draw.sample(sorted(run["tasks"]), 3)
        run["tasks"] = {name: run["tasks"][name] for name in kept}
    if draw.random() < 0.5:
        run["method"] = draw.choice(_methods())
    if draw.random() < 0.3:
        run["train"][draw.choice(_train_keys())] = draw.choice([odd_value(draw), draw.choice(known_words())])
    return run


def overrides(draw: Random) -> list[str]:
    """`KEY=VALUE` words, most of them odd."""
    sections = (
        "train",
        "method",
        "heads",
        "tasks",
        "tasks.cat",
        "tasks.cat.train",
        "encoder",
        "",
        "train.stop",
    )
    words = []
    for _ in range(draw.randint(1, 2)):
        key = ".".join(part for part in (draw.choice(sections), draw.choice(known_keys())) if part)
        value = draw.choice(
            [draw.choice(SCALARS), as_json(draw, odd_value(draw)), draw.choice(known_words())]
        )
        words.append(
            draw.choice([f"{key}={value}"] * 8 + [f"{key}", f"={value}", f"{key}==", f"{key}.={value}"])
        )
    # the system takes neither, so no user can type them
    return [word.replace("\0", " ").encode("utf-8", "replace").decode() for word in words]


def build_run_file(draw: Random, base: Base, folder: Path) -> Case:
    """A run file that is damaged, or correct with odd settings on the command line."""
    file = folder / "run.yaml"
    command = draw.choice(COMMANDS)
    words = overrides(draw) if draw.random() < 0.25 else []
    run = run_file_values(draw, base)
    if words and draw.random() < 0.8:
        file.write_bytes(to_bytes(as_json(draw, run)))
    elif draw.random() < 0.25:
        file.write_bytes(to_bytes(as_json(draw, damaged_value(draw, run, 1, known_keys()))))
    else:
        file.write_bytes(damaged_yaml(draw, run, known_keys()))
    at = 2 if command[0] == "show" else 1
    arguments = (*command[:at], "run.yaml", *words, *command[at:])
    return Case(
        arguments,
        # a run may diverge, which is exit code 1
        codes=(1, 2) if command[0] == "train" else (2,),
        inputs=(file,),
        json="object" if "--json" in command else None,
    )
