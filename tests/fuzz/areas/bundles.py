"""Damaged bundles, for every command that reads one."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.base import Base
from tests.fuzz.case import Case
from tests.fuzz.folder_damage import copied, damage_folder

BUNDLES = ("ended", "ended", "whole", "kinds", "gated", "pals")


def build_bundle(draw: Random, base: Base, folder: Path) -> Case:
    """A bundle with one or two damaged files, alone or beside a sound one."""
    name = draw.choice(BUNDLES)
    bundle = copied(base.run(name) / "bundle", folder / "bundle")
    damage_folder(draw, bundle)
    task = "classify" if name == "kinds" else "cat"
    sound = str(base.run("ended") / "bundle")
    data = str(base.kinds_file if name == "kinds" else base.run_file)
    text = ("--task", task, "--text", "the cat sees")
    commands = (
        *(("predict", "bundle", *text),) * 4,
        *(("evaluate", "bundle", "--tasks", data), ("evaluate", "bundle", "--tasks", data, "--json")) * 2,
        ("show", "storage", "bundle"),
        ("show", "storage", "bundle", "--json"),
        ("show", "similarity", "bundle", "--json"),
        ("show", "sparsity", "bundle"),
        ("show", "attention", "bundle", *text),
        ("show", "covariance", "bundle", "--tasks", data, "--rows", "4"),
        ("task", "remove", "bundle", task, "--out", draw.choice(["bundle", "new"])),
        ("task", "copy", "bundle", task, sound, "--as", "copied", "--out", "new"),
        ("task", "copy", sound, "cat", "bundle", "--as", "copied"),
        ("assemble", "bundle", sound, "--out", "new"),
        ("compact", "bundle", "--out", "new"),
        ("export", "bundle", "--task", task, "--to", "peft", "--out", "peft"),
        ("submit", "bundle", "--to", "glue", "--out", "glue.zip", "--tasks", data),
        ("train", str(base.run_file), "start=bundle", "train.steps=1", "--out", "out"),
    )
    command = draw.choice(commands)
    kind = "lines" if command[0] == "predict" else "object" if "--json" in command else None
    codes = (1, 2) if command[0] in ("train", "submit") else (2,)
    return Case(command, codes=codes, inputs=(bundle,), json=kind)
