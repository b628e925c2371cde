"""Damaged folders of runs: the run file, the log, the metrics, the checkpoints and the bundle."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.base import Base
from tests.fuzz.case import Case
from tests.fuzz.folder_damage import copied, damage_folder


def build_run_folder(draw: Random, base: Base, folder: Path) -> Case:
    """A run, ended or broken off, with one or two damaged files."""
    broken = draw.random() < 0.5
    run = copied(base.run("broken" if broken else "ended"), folder / "run")
    damage_folder(draw, run)
    resume = ("train", str(base.run_file), "--out", "run", "--resume")
    commands = (
        *((resume,) * 8 if broken else (resume,)),
        ("train", "run", "--out", "out", "train.steps=1"),
        ("check", "run", "--no-estimate"),
        ("evaluate", "run"),
        ("evaluate", "run", "--json"),
        ("predict", "run", "--task", "cat", "--text", "the cat"),
        ("predict", "run", str(base.run_file.parent / "cat.validation.jsonl")),
        ("show", "averages", "run"),
        ("show", "averages", "run", "--json"),
        ("show", "spread", "run", "--against", str(base.run("ended"))),
        ("show", "storage", "run"),
        ("show", "plan", "run"),
        ("policy", "run"),
        ("policy", "run", str(base.run("ended")), "--json"),
        ("submit", "run", "--to", "glue", "--out", "glue.zip"),
    )
    command = draw.choice(commands)
    kind = "lines" if command[0] == "predict" else "object" if "--json" in command else None
    # a resumed run may clean up its folder before it fails; what may not be lost is tested elsewhere
    inputs = () if command == resume else (run,)
    return Case(
        command, codes=(1, 2) if command[0] in ("train", "submit") else (2,), inputs=inputs, json=kind
    )
