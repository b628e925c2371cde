"""The undamaged files: small trained models, runs, exports and submissions, each made in a second or two."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAIN: dict[str, Any] = {
    "steps": 6,
    "batch_size": 4,
    "evaluate_every": 2,
    "evaluate_rows": 4,
    "checkpoint_every": 2,
    "log_every": 1,
    "baselines": False,
}
GATED = ("method={use: morris, rank: 2, l0: {steps: 2}}", "train.steps=2")


@dataclass(frozen=True)
class Base:
    """Where the undamaged files are.

    Attributes:
        folder: the folder of all of them.
    """

    folder: Path

    @property
    def run_file(self) -> Path:
        """A run file with three tasks, beside its data and its encoder."""
        return self.folder / "three" / "run.yaml"

    @property
    def encoder(self) -> Path:
        """The encoder of that run, as Hugging Face saves it."""
        return self.folder / "three" / "encoder"

    @property
    def cache(self) -> Path:
        """The token cache of that run's data."""
        return self.folder / "cache"

    @property
    def spreadsheets(self) -> Path:
        """A folder with files as people have them, of six formats and habits."""
        return self.folder / "spreadsheets"

    @property
    def kinds_file(self) -> Path:
        """A run file with a task of every kind."""
        return self.folder / "kinds" / "run.yaml"

    def run(self, name: str) -> Path:
        """The folder of a run: `ended`, `broken` off, `kinds`, `gated`, `pals`, `whole` with its encoder."""
        return self.folder / "runs" / name

    def peft(self, name: str) -> Path:
        """A LoRA folder of PEFT: `auto` or `file` (with the head in its own file)."""
        return self.folder / "peft" / name

    def submission(self, name: str) -> Path:
        """A complete zip file for the server of `glue` or `superglue`."""
        return self.folder / f"{name}.zip"


def build_base(folder: Path) -> Base:
    """Make all the files in an empty folder, which replaces an older one."""
    from tests.support.every_kind import write_every_kind
    from tests.support.own_files import SIX
    from tests.support.tiny_run import breaking_off, write_run
    from weft.evaluation.submission import BENCHMARKS

    shutil.rmtree(folder, ignore_errors=True)
    base = Base(folder.resolve())
    with _at_rest(base.cache):
        run_file = str(write_run(base.folder / "three", layers=1, **TRAIN))
        _weft(0, "train", run_file, "--out", base.run("ended"))
        _weft(0, "train", run_file, "--out", base.run("whole"), "--with-encoder")
        with breaking_off(5):
            _weft(None, "train", run_file, "--out", base.run("broken"))
        _weft(0, "train", run_file, *GATED, "--out", base.run("gated"))
        _weft(0, "train", run_file, "method=pals", "train.steps=1", "--out", base.run("pals"))
        for head in ("auto", "file"):
            export = ("export", base.run("ended"), "--task", "cat", "--to", "peft", "--head", head)
            _weft(0, *export, "--out", base.peft(head))
    with _at_rest(base.folder / "more-cache"):
        kinds = str(
            write_every_kind(base.folder / "kinds", {**TRAIN, "steps": 1, "max_length": 24}, layers=1)
        )
        _weft(0, "train", kinds, "--out", base.run("kinds"))
        base.spreadsheets.mkdir()
        for write in SIX.values():
            write(base.spreadsheets)
        for name in BENCHMARKS:
            BENCHMARKS[name].write({}, base.submission(name))
    return base


def _weft(code: int | None, *arguments: object) -> None:
    from weft.cli import run

    ended = run([str(argument) for argument in arguments])
    if code is not None and ended != code:
        raise RuntimeError(f"weft {' '.join(map(str, arguments))} ended with exit code {ended}, not {code}")


@contextmanager
def _at_rest(cache: Path) -> Iterator[None]:
    """Inside, nothing is printed, the token cache is in the folder, and no hub is tried."""
    before = {name: os.environ.get(name) for name in ("WEFT_CACHE", "HF_HUB_OFFLINE")}
    os.environ.update(WEFT_CACHE=str(cache), HF_HUB_OFFLINE="1")
    try:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
