"""Cases that fail on purpose, each in one way that a fuzzer must notice."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import weft.cli
from tests.fuzz.base import Base
from tests.fuzz.case import Build, Case


def _planted(behave: Callable[[Path], int], **case: Any) -> Build:
    """A case in which `weft` behaves so; it is planted in the process of the case alone."""

    def build(draw: Random, base: Base, folder: Path) -> Case:
        (folder / "input").write_text("as it was")
        weft.cli.run = lambda arguments: behave(folder)  # type: ignore[assignment]
        return Case(("planted",), inputs=(folder / "input",), **case)

    return build


def _printing(code: int, out: str = "", err: str = "") -> Callable[[Path], int]:
    def behave(folder: Path) -> int:
        sys.stdout.write(out)
        sys.stderr.write(err)
        return code

    return behave


def _raises(folder: Path) -> int:
    raise KeyError("planted")


def _sleeps(folder: Path) -> int:
    time.sleep(60)
    return 0


def _waits_for_a_pipe(folder: Path) -> int:
    os.mkfifo(folder / "pipe")
    (folder / "pipe").read_bytes()
    return 0


def _spins(folder: Path) -> int:
    while True:
        pass


def _fills_the_memory(folder: Path) -> int:
    kept = []
    try:
        while True:
            kept.append(bytes(2**26))
    except MemoryError:
        kept.clear()
        print("out of memory: planted", file=sys.stderr)
        return 1


def _crashes(folder: Path) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def _changes_its_input(folder: Path) -> int:
    (folder / "input").write_text("something else")
    print("no", file=sys.stderr)
    return 2


BEHAVIOURS: dict[str, tuple[Callable[[Path], int], str, dict[str, Any]]] = {
    "accepts": (_printing(0, "fine\n"), "accepted", {}),
    "refuses": (_printing(2, err="run.yaml: no\n"), "refused", {}),
    "fails with an expected code": (_printing(1, err="diverged\n"), "refused", {"codes": (1, 2)}),
    "raises": (_raises, "traceback", {}),
    "sleeps": (_sleeps, "hang", {}),
    "waits for a pipe": (_waits_for_a_pipe, "hang", {}),
    "spins": (_spins, "hang", {}),
    "fills the memory": (_fills_the_memory, "memory", {}),
    "crashes": (_crashes, "crash", {}),
    "fails with another code": (_printing(3, err="no\n"), "wrong exit code", {}),
    "fails with code 1": (_printing(1, err="no\n"), "wrong exit code", {}),
    "refuses without a word": (_printing(2), "wrong output", {}),
    "prints an escape": (_printing(2, err="the label \x1b[31m is unknown\n"), "wrong output", {}),
    "prints NaN": (_printing(0, '{"score": NaN}\n'), "wrong output", {"json": "lines"}),
    "prints a text": (_printing(0, '{"score": 1}\nfine\n'), "wrong output", {"json": "object"}),
    "prints JSON": (_printing(0, '{"score": 1}\n{"score": 2}\n'), "accepted", {"json": "lines"}),
    "changes its input": (_changes_its_input, "changed input", {}),
}
"""What a planted case does, the verdict that it must get, and the rest of the case."""


def build_planted(draw: Random, base: Base, folder: Path) -> Case:
    """The planted case of the folder's number."""
    number = int(folder.parent.name.rpartition("-")[2])
    behave, _, case = list(BEHAVIOURS.values())[number]
    return _planted(behave, **case)(draw, base, folder)
