"""Runs cases, in one process or in several that share the work."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.base import Base, build_base
from tests.fuzz.case import HANG, Build, Finished, Verdict, judge
from tests.fuzz.child import fork_case, read_case
from tests.fuzz.watchdog import SECONDS, watch

ANEW = 150
"""One of so many cases is run by a new Python, which takes seconds to import everything."""
STARTING = 20.0
"""Seconds that a new Python may take in addition."""
LARGEST = 2**24
"""How many bytes of what a command prints are read."""


class Numbered(NamedTuple):
    """The name of a case: it says everything about it, together with the seed."""

    area: str
    number: int


class Result(NamedTuple):
    """The verdict on a case.

    Attributes:
        area: the case's area.
        number: its number.
        kind: the kind of the verdict.
        detail: more about it.
        command: the command line.
        seconds: the processor time that it took.
    """

    area: str
    number: int
    kind: str
    detail: str
    command: str
    seconds: float

    @property
    def right(self) -> bool:
        """Whether weft did what it promises."""
        return Verdict(self.kind).right


class Fuzzer:
    """Runs cases on the undamaged files of a folder.

    Args:
        areas: the function that builds the cases of each area.
        folder: the folder for all files. Those of failed cases stay there, in `failed`.
        seed: the seed of all cases.
        limit: the seconds that a case may take.
        anew: one of so many cases is run by a new Python; 0: none.
    """

    def __init__(
        self, areas: dict[str, Build], folder: Path, seed: int = 1, limit: float = SECONDS, anew: int = ANEW
    ) -> None:
        self.areas = areas
        self.folder = folder.resolve()
        self.base = Base(self.folder / "base")
        self.seed = seed
        self.limit = limit
        self.anew = anew

    def prepare(self, rebuild: bool = True) -> None:
        """Make the undamaged files, in a process of its own: threads of a training must not be forked."""
        if not rebuild and self.base.folder.is_dir():
            return
        process = os.fork()
        if process == 0:
            code = 1
            try:
                build_base(self.base.folder)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        if status:
            raise RuntimeError("the undamaged files could not be made; see above")

    def run(self, case: Numbered, keep: bool = False) -> Result:
        """Run one case and return the verdict.

        Args:
            case: the case.
            keep: whether its files stay in any case.
        """
        name = f"{case.area.replace(' ', '_')}-{case.number}"
        folder = self.folder / "cases" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        anew = self.anew > 0 and case.number % self.anew == self.anew - 1
        seed = f"{self.seed} {case.area} {case.number}"
        process = fork_case(self.areas[case.area], seed, self.base, folder, anew)
        ended = watch(process, self.limit + (STARTING if anew else 0.0))
        built = read_case(folder)
        if built is None:
            raise RuntimeError(f"{case.area} {case.number} could not be built; its output is above")
        what, changed = built
        if ended.code is None:
            verdict = Verdict(HANG, f"over {self.limit:g} s")
        else:
            printed = [_printed(folder / stream) for stream in ("stdout", "stderr")]
            verdict = judge(what, Finished(ended.code, *printed), changed)
        if not verdict.right:
            failed = self.folder / "failed" / name
            shutil.rmtree(failed, ignore_errors=True)
            failed.parent.mkdir(exist_ok=True)
            folder.rename(failed)
        elif not keep:
            shutil.rmtree(folder)
        command = " ".join(["weft", *(repr(word) if " " in word else word for word in what.arguments)])
        return Result(*case, *verdict, command, ended.seconds)

    def run_all(self, cases: Sequence[Numbered], jobs: int = 1) -> Iterator[Result]:
        """Yield the results of all cases as they come; the results do not depend on the number of jobs."""
        if jobs <= 1:
            yield from map(self.run, cases)
            return
        selector = selectors.DefaultSelector()
        workers = []
        for job in range(jobs):
            reading, writing = os.pipe()
            process = os.fork()
            if process == 0:
                os.close(reading)
                self._work(cases[job::jobs], writing)
            os.close(writing)
            selector.register(open(reading, encoding="utf-8"), selectors.EVENT_READ)  # noqa: SIM115
            workers.append(process)
        results = 0
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    results += 1
                    yield Result(*json.loads(line))
                else:
                    selector.unregister(key.fileobj)
        for process in workers:
            os.waitpid(process, 0)
        if results != len(cases):
            raise RuntimeError(f"{len(cases) - results} cases were not run: a worker ended early; see above")

    def _work(self, cases: Iterable[Numbered], writing: int) -> None:
        try:
            for case in cases:
                os.write(writing, f"{json.dumps(self.run(case))}\n".encode())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)


def _printed(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(LARGEST).decode("utf-8", "backslashreplace")


def spread(shares: dict[str, int], count: int) -> list[Numbered]:
    """Return the names of `count` cases or a few more, the areas mixed in proportion to their shares."""
    total = sum(shares.values())
    numbers = {area: -(-count * share // total) for area, share in shares.items()}
    cases = [(n / most, Numbered(area, n)) for area, most in numbers.items() for n in range(most)]
    return [case for _, case in sorted(cases, key=lambda entry: entry[0])]
