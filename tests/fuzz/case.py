"""A case: one call of the command line on damaged input; and the verdict on what it did."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from tests.fuzz.base import Base

ACCEPTED, REFUSED = "accepted", "refused"
TRACEBACK, CRASH, HANG, MEMORY = "traceback", "crash", "hang", "memory"
CODE, OUTPUT, CHANGED = "wrong exit code", "wrong output", "changed input"
RIGHT = (ACCEPTED, REFUSED)
WRONG = (TRACEBACK, CRASH, HANG, MEMORY, CODE, OUTPUT, CHANGED)

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
"""Characters that a terminal may obey; tabs and line ends are left out."""


@dataclass(frozen=True)
class Case:
    """One call of `weft`, with the case's folder as working folder.

    Attributes:
        arguments: the words after `weft`.
        stdin: the bytes on standard input; None: there are none.
        codes: the exit codes that are right beside 0.
        inputs: files and folders that a refused call must leave as they are.
        json: what standard output holds if the call is accepted: one object, one object per line, or text.
    """

    arguments: tuple[str, ...]
    stdin: bytes | None = None
    codes: tuple[int, ...] = (2,)
    inputs: tuple[Path, ...] = ()
    json: Literal["object", "lines"] | None = None


Build = Callable[[Random, Base, Path], Case]
"""Builds a case: the random numbers of the case, the undamaged files, the folder to write to."""


class Verdict(NamedTuple):
    """What a case did.

    Attributes:
        kind: one of `RIGHT` or `WRONG`.
        detail: the last line of a traceback, the exit code, or what else tells one failure from another.
    """

    kind: str
    detail: str = ""

    @property
    def right(self) -> bool:
        """Whether weft did what it promises."""
        return self.kind in RIGHT


class Finished(NamedTuple):
    """What a process left behind: its exit code (negative: the signal that ended it) and what it printed."""

    code: int
    out: str
    err: str


def judge(case: Case, finished: Finished, changed: list[str]) -> Verdict:
    """Return the verdict on a case whose process ended by itself.

    Args:
        case: the case.
        finished: what its process left behind.
        changed: the names of the case's inputs that are not what they were.
    """
    code, out, err = finished
    if "Traceback (most recent call last)" in err:
        return Verdict(TRACEBACK, _last_line(err))
    if code < 0:
        return Verdict(CRASH, f"signal {-code}: {_last_line(err)}")
    if code == 1 and err.lstrip().startswith("out of memory"):
        return Verdict(MEMORY, _last_line(err.strip().split("\n")[0]))
    if code != 0 and code not in case.codes:
        return Verdict(CODE, f"exit code {code}: {_last_line(err)}")
    if control := CONTROL.search(out + err):
        return Verdict(OUTPUT, f"control character {control.group()!r} on the terminal")
    if code != 0:
        if not (out + err).strip():
            return Verdict(OUTPUT, f"exit code {code} without a message")
        if changed:
            return Verdict(CHANGED, f"{', '.join(changed[:3])}: {_last_line(err)}")
        return Verdict(REFUSED, _last_line(err or out))
    if problem := _json_problem(case, out):
        return Verdict(OUTPUT, problem)
    return Verdict(ACCEPTED)


def _json_problem(case: Case, out: str) -> str | None:
    """What is no JSON on standard output; NaN and Infinity are none."""
    texts = [] if case.json is None else [out] if case.json == "object" else out.splitlines()
    for text in texts:
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except ValueError as wrong:
            return f"no JSON: {wrong}"
        if not isinstance(value, dict):
            return f"expected a JSON object; found {type(value).__name__}"
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
