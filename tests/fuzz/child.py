"""The process of one case: builds the case, limits itself, and runs `weft` with it.

It is forked from a process that has imported everything, so that a case costs a tenth of a second. Some cases
are run by a new Python (`python -m weft`), which also starts and ends as a user's command does.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import stat
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from tests.fuzz.base import Base
from tests.fuzz.case import Build, Case

MEMORY = 2**30
"""How many bytes a case may add to the memory of the process that it was forked from."""
FILE_SIZE = 2**29
"""The most bytes of a file that a case may write."""
BUILT = "case.json"
"""The file with the case; it exists as soon as the command is about to run."""
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "120",
    "PYTHONIOENCODING": "utf-8:strict",
}


def fork_case(build: Build, seed: str, base: Base, folder: Path, anew: bool) -> int:
    """Start the process of a case and return its id.

    Args:
        build: builds the case.
        seed: the seed of the case's random numbers.
        base: the undamaged files.
        folder: an empty folder. It gets the case's own folder, `work`, and what the command prints.
        anew: whether a new Python runs the command.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        _live(build, seed, base, folder, anew)
    return process


def _live(build: Build, seed: str, base: Base, folder: Path, anew: bool) -> NoReturn:
    code = 1
    try:
        os.setsid()  # the watchdog ends the whole group
        work = folder / "work"
        work.mkdir()
        os.chdir(work)
        os.environ |= {**ENVIRONMENT, "WEFT_CACHE": str(work / "cache")}
        case = build(Random(seed), base, work)
        _write_case(folder, case)
        _redirect(folder, case.stdin)
        _limit()
        (folder / f"{BUILT}.new").rename(folder / BUILT)
        if anew:
            os.execv(sys.executable, [sys.executable, "-m", "weft", *case.arguments])
        from weft.cli import run

        code = run(list(case.arguments))
    except BaseException:
        traceback.print_exc()
    finally:
        # no exit handlers: those of the process that it was forked from are not the case's
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 120  # as Python does
        os._exit(code)


def _write_case(folder: Path, case: Case) -> None:
    record = {
        "arguments": case.arguments,
        "codes": case.codes,
        "json": case.json,
        "inputs": [str(path) for path in case.inputs],
        "before": [fingerprint(path) for path in case.inputs],
    }
    (folder / f"{BUILT}.new").write_text(json.dumps(record))


def read_case(folder: Path) -> tuple[Case, list[str]] | None:
    """Return the case and the names of the inputs that have changed since; None if it was never built."""
    if not (folder / BUILT).exists():
        return None
    record: dict[str, Any] = json.loads((folder / BUILT).read_text())
    inputs = tuple(map(Path, record["inputs"]))
    changed = [
        path.name
        for path, before in zip(inputs, record["before"], strict=True)
        if fingerprint(path) != before
    ]
    return Case(tuple(record["arguments"]), None, tuple(record["codes"]), inputs, record["json"]), changed


def fingerprint(path: Path) -> str:
    """Return a hash of a file or folder: names, kinds, contents and the targets of links; no pipe is read."""
    digest = hashlib.sha256()
    paths = [path]
    if path.is_dir() and not path.is_symlink():
        for parent, folders, files in os.walk(path):
            paths += [Path(parent) / name for name in (*folders, *files)]
    for entry in sorted(paths, key=str):
        digest.update(f"{str(entry.relative_to(path.parent))!r}".encode())
        if not os.path.lexists(entry):
            digest.update(b" is gone")
            continue
        mode = entry.lstat().st_mode
        digest.update(f" {stat.S_IFMT(mode)} ".encode())
        if stat.S_ISLNK(mode):
            digest.update(os.readlink(entry).encode("utf-8", "surrogateescape"))
        elif stat.S_ISREG(mode):
            digest.update(entry.read_bytes())
    return digest.hexdigest()


def _redirect(folder: Path, stdin: bytes | None) -> None:
    """Let standard input, output and error be files beside the case's folder."""
    (folder / "stdin").write_bytes(stdin or b"")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        descriptor = os.open(folder / name, flags, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", errors="strict")  # noqa: SIM115
    stderr = open(2, "wb", closefd=False)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(stderr, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _limit() -> None:
    """Limit memory, the size of files and, in case the watchdog dies, the time."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    for kind, value in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
        (resource.RLIMIT_CPU, 120),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))
