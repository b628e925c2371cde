"""kill -9 of every command that writes, and what must hold afterwards.

After a kill, what the command writes is as it was before, or as it is when the command has ended; all other
files are untouched. The same command then runs, or says that its work is done, and leaves nothing of the
killed one. `python -m tests.fuzz` and `tests/cli/test_kills.py` call `check`.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import kill_child
from tests.support.fork_server import context
from tests.support.writing_commands import WritingCommand
from weft.utils.temporary import is_leftover_name

Snapshot = Mapping[str, str]
"""The sha256 of every file of a folder, by its path there; that of a folder without files is empty."""


@dataclass
class Prepared:
    """A command that has run once to its end.

    Attributes:
        command: the command.
        home: the folder with its inputs, which it does not change.
        before: the case's folder before the command.
        after: the case's folder after it.
        accesses: how often it accesses a file of the folder to change it.
        seconds: how long it took.
    """

    command: WritingCommand
    home: Path
    before: Snapshot
    after: Snapshot
    accesses: int
    seconds: float


@dataclass
class Outcome:
    """What a kill has led to.

    Attributes:
        killed: whether the process was killed, or had ended before.
        state: `old`, `new`, or `between` for a run that continues.
        faults: what should not be.
    """

    killed: bool = False
    state: str = ""
    faults: list[str] = field(default_factory=list)


def prepare(command: WritingCommand, home: Path, folder: Path) -> Prepared:
    """Run a command to its end in a new folder.

    Args:
        command: the command.
        home: the folder with the inputs of all commands; see `writing_commands.write_home`.
        folder: a folder that does not exist.
    """
    _begin(command, home, folder)
    before = snapshot(folder)
    began = time.monotonic()
    code, accesses, text = _run(command.arguments(home, folder), home, folder)
    assert code == 0, f"{command.name}: exit code {code}\n{text}"
    after = snapshot(folder)
    assert after != before, f"{command.name} changed nothing"
    assert accesses is not None
    return Prepared(command, home, before, after, accesses, time.monotonic() - began)


def check(prepared: Prepared, folder: Path, kill_at: int | float) -> Outcome:
    """Kill a command, look at what it has left, run it again, and look at the end.

    Args:
        prepared: the command.
        folder: a folder that does not exist; it is removed at the end.
        kill_at: before which access to a file (a whole number), or after which share of the time.
    """
    command, home = prepared.command, prepared.home
    _begin(command, home, folder)
    outcome = Outcome()
    arguments = command.arguments(home, folder)
    code, _, text = _run(arguments, home, folder, kill_at, prepared.seconds)
    outcome.killed = code == -signal.SIGKILL
    if not outcome.killed and code != 0:
        outcome.faults.append(f"exit code {code} before it was killed\n{text}")
    left = {path: sha256 for path, sha256 in snapshot(folder).items() if not _leftover(path)}
    outcome.state = _state(left, prepared)
    if outcome.state == "between" and not command.continues:
        outcome.faults.append(f"neither the old nor the new state: {_difference(left, prepared)}")
    code, _, text = _run(command.arguments(home, folder, again=True), home, folder)
    allowed = {0, 2} if outcome.state == "new" and command.refuses_again else {0}
    if code not in allowed or "Traceback" in text:
        outcome.faults.append(f"run again: exit code {code}\n{text}")
    at_end = snapshot(folder)
    if command.content(at_end) != command.content(prepared.after):
        outcome.faults.append(f"not the expected end: {_difference(at_end, prepared)}")
    leftovers = [path for path in at_end if _leftover(path)]
    scratch = Path(f"{folder}.tmp")
    if (
        code == 0 and outcome.state != "new"
    ):  # else the command had nothing to do, and looked for no leftovers
        leftovers += [f"temporary folder {path.name}" for path in scratch.iterdir()]
    if leftovers:
        outcome.faults.append(f"left behind: {leftovers}")
    for place in (folder, scratch):
        shutil.rmtree(place, ignore_errors=True)
    return outcome


def moments(prepared: Prepared, count: int, seed: str) -> list[int | float]:
    """Choose moments for kills: three of four before an access to a file, the others by time.

    The last accesses are the most dangerous ones, and half of the kills are among them. With a count of 0
    every access is returned.
    """
    if count == 0:
        return list(range(1, prepared.accesses + 1))
    draw = random.Random(f"{prepared.command.name} {seed}")
    chosen: list[int | float] = []
    for number in range(count):
        if number % 4 == 3:
            chosen.append(draw.random())
        else:
            first = prepared.accesses // 2 if number % 2 else 1
            chosen.append(draw.randint(max(first, 1), prepared.accesses))
    return chosen


def snapshot(folder: Path) -> dict[str, str]:
    """Hash all files of a folder; links and other things are named."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            files[name] = "neither a file nor a folder"
        elif path.is_file():
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not any(path.iterdir()):
            files[name] = ""
    return files


def _begin(command: WritingCommand, home: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in command.copied:
        source = home / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)


def _run(
    arguments: list[str], home: Path, folder: Path, kill_at: int | float | None = None, seconds: float = 0.0
) -> tuple[int, int | None, str]:
    """Run a command line in a process; its exit code, its accesses to files and its output."""
    report = f"{folder}.report"
    access = kill_at if isinstance(kill_at, int) else None
    cache = str(home.parent / "cache")
    process = context.Process(target=kill_child.run, args=(arguments, str(folder), cache, access, report))
    process.start()
    if isinstance(kill_at, float):
        process.join(kill_at * seconds)
        process.kill()
    process.join(300)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
        raise AssertionError(f"{arguments} did not end")
    texts = {}
    for kind in ("out", "count"):
        file = Path(f"{report}.{kind}")
        texts[kind] = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        file.unlink(missing_ok=True)
    return code, int(texts["count"]) if texts["count"] else None, texts["out"]


def _leftover(path: str) -> bool:
    return any(is_leftover_name(part) for part in path.split("/"))


def _state(files: Snapshot, prepared: Prepared) -> str:
    content = prepared.command.content
    if content(files) == content(prepared.after):
        return "new"
    return "old" if content(files) == content(prepared.before) else "between"


def _difference(files: Snapshot, prepared: Prepared) -> str:
    content = prepared.command.content
    found, old, new = content(files), content(prepared.before), content(prepared.after)
    lines = []
    for path in sorted({*found, *old, *new}):
        if found.get(path) != new.get(path):
            same = "as before" if found.get(path) == old.get(path) else "different"
            lines.append(f"{path}: {same if path in found else 'missing'}")
    return "; ".join(lines)
