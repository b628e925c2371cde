"""Runs cases for a test, in a process without threads, from which the cases can be forked."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.case import Build
from tests.fuzz.runner import Fuzzer, Numbered, Result
from tests.support.fork_server import context


def run_apart(
    areas: dict[str, Build],
    cases: Sequence[Numbered],
    folder: Path,
    *,
    limit: float = 5.0,
    anew: int = 0,
    rebuild: bool = True,
) -> list[Result]:
    """Run the cases one after the other and return their results.

    Args:
        areas: the function that builds the cases of each area.
        cases: the cases.
        folder: the folder for all files.
        limit: the seconds that a case may take.
        anew: one of so many cases is run by a new Python; 0: none.
        rebuild: whether the undamaged files are made; else the areas need none, or they are there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = context.Process(target=_run, args=(areas, list(cases), folder, limit, anew, rebuild))
    process.start()
    process.join()
    errors = folder / "errors.txt"
    assert process.exitcode == 0, errors.read_text(encoding="utf-8") if errors.exists() else "no message"
    return [Result(*entry) for entry in json.loads((folder / "results.json").read_text(encoding="utf-8"))]


def _run(
    areas: dict[str, Build], cases: list[Numbered], folder: Path, limit: float, anew: int, rebuild: bool
) -> None:
    import torch

    torch.set_num_threads(1)
    fuzzer = Fuzzer(areas, folder, limit=limit, anew=anew)
    try:
        if rebuild:
            fuzzer.prepare()
        results = list(fuzzer.run_all(cases))
    except BaseException:
        (folder / "errors.txt").write_text(traceback.format_exc(), encoding="utf-8")
        sys.exit(1)
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
