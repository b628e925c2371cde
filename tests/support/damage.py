"""Ways to damage a file, and what may become of it when a command reads it."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from weft import cli

NOTICED, REPAIRED, HARMLESS = "noticed", "repaired", "harmless"
TRACEBACK, WRONG, LOST = "TRACEBACK", "WRONG RESULT", "LOST"
FAILURES = (TRACEBACK, WRONG, LOST)


def flip(data: bytes, draw: random.Random) -> bytes:
    """One bit is another."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def cut(data: bytes, draw: random.Random) -> bytes:
    """The end is missing."""
    return data[: draw.randrange(len(data))]


def zeros(data: bytes, draw: random.Random) -> bytes:
    """A block is all zeros, as after a crash."""
    at = draw.randrange(len(data))
    size = min(draw.choice([1, 16, 512]), len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


def noise(data: bytes, draw: random.Random) -> bytes:
    """All bytes are random."""
    return draw.randbytes(len(data))


def longer(data: bytes, draw: random.Random) -> bytes:
    """There is more at the end."""
    return data + draw.randbytes(draw.randint(1, 64))


def empty(data: bytes, draw: random.Random) -> bytes:
    """Nothing is left."""
    return b""


KINDS: dict[str, Callable[[bytes, random.Random], bytes] | None] = {
    "bit": flip,
    "cut": cut,
    "zeros": zeros,
    "noise": noise,
    "longer": longer,
    "empty": empty,
    "gone": None,
}
"""How a file is damaged; None: it is deleted."""


@dataclass(frozen=True)
class Case:
    """A damaged file and what became of it.

    Attributes:
        place: the file, below the folder that was copied.
        kind: how it was damaged.
        outcome: one of the words above.
        told: what the command printed, if that was a failure.
    """

    place: str
    kind: str
    outcome: str
    told: str = ""


def damage(path: Path, kind: str, draw: random.Random) -> bool:
    """Damage a file; False if it is as it was."""
    data, change = path.read_bytes(), KINDS[kind]
    if change is None:
        path.unlink()
        return True
    changed = change(data, draw) if data else b"\0"
    path.write_bytes(changed)
    return changed != data


def called(*arguments: object) -> tuple[int, str, str]:
    """The exit code of a command and what it prints; an exception is a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = cli.run([str(argument) for argument in arguments])
        except Exception as wrong:
            code = -1
            print(f"Traceback: {wrong!r}", file=err)
    return code, out.getvalue(), err.getvalue()


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files_of(folder)}


def outcome_of(code: int, err: str, same: bool) -> str:
    """What became of a case, by the exit code, what was printed and whether the result has the same bits."""
    if code not in (0, 2) or "Traceback" in err:
        return TRACEBACK
    if code == 2:
        return NOTICED if err.strip() else TRACEBACK
    if not same:
        return WRONG
    return REPAIRED if any(word in err for word in ("damaged", "missing")) else HARMLESS
