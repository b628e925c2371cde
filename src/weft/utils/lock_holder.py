"""Who holds a lock: the record that a writer leaves in the lock's file, for messages to others.

On file systems with locks the record decides nothing. On others it is the lock, and whether its writer still
lives must be found out: by the process's id and start time on the same machine, and not at all on another.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

LONGEST = 4096
"""How many bytes of a record are read; it has a few hundred."""


@dataclass(frozen=True)
class Holder:
    """A process that writes, or wrote when it was killed.

    Attributes:
        process: its id.
        host: the name of its machine.
        since: when it began to write, in seconds since 1970.
        doing: its command, such as `weft train`.
        started: when the process was started, in the words of the system; process ids are used again.
        boot: an id of the machine's present start; None if the system has none.
        machine: an id of the machine; None if the system has none.
        namespace: whose process ids these are: a container has its own; None if the system has none.
        place: the lock's file, because a folder may be copied with it.
        token: a random word, which tells two records of one process apart.
    """

    process: int
    host: str
    since: float
    doing: str
    started: str | None = None
    boot: str | None = None
    machine: str | None = None
    namespace: str | None = None
    place: str | None = None
    token: str | None = None

    @classmethod
    def current(cls, doing: str, place: Path) -> Holder:
        """This process."""
        number = os.getpid()
        return cls(
            number,
            socket.gethostname(),
            round(time.time(), 3),
            doing,
            start_of(number),
            _line_of("/proc/sys/kernel/random/boot_id"),
            _line_of("/etc/machine-id"),
            _link_of("/proc/self/ns/pid"),
            str(place),
            secrets.token_hex(8),
        )

    @classmethod
    def parse(cls, text: str) -> Holder | None:
        """Read a record; None if it is none, as while its writer is about to write it."""
        try:
            values: dict[str, Any] = json.loads(text)
            known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
            holder = cls(**{**known, "process": int(known["process"]), "since": float(known["since"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return holder if holder.process > 0 and isinstance(holder.host, str) else None

    def text(self) -> str:
        """The record as it is written."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def here(self) -> bool:
        """Whether it is certainly a process of this machine, whose id means the same here."""
        return (
            self.host == socket.gethostname()
            and self.boot == _line_of("/proc/sys/kernel/random/boot_id")
            and self.namespace == _link_of("/proc/self/ns/pid")
        )

    def gone(self) -> bool:
        """Whether the process has certainly ended; False if that cannot be known, as on another machine."""
        if self.host != socket.gethostname() or os.name == "nt":
            return False
        boot, machine = _line_of("/proc/sys/kernel/random/boot_id"), _line_of("/etc/machine-id")
        if self.boot != boot:  # the machine was started again, if it is this one and no other of its name
            return None not in (self.boot, boot, machine) and self.machine == machine
        if self.namespace != _link_of("/proc/self/ns/pid"):
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:  # it is a different user's
            pass
        now = start_of(self.process)
        return None not in (self.started, now) and self.started != now

    def __str__(self) -> str:
        """`process 4242 on host-1 (weft train, since 2025-06-01 12:30:05)`."""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(max(self.since, 0.0), 1e11)))
        return f"process {self.process} on {_plain(self.host)} ({_plain(self.doing)}, since {since})"


def start_of(process: int) -> str | None:
    """When a process was started, in the words of the system; None if that is not known."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]  # in clock ticks since the machine was started
    except (OSError, IndexError):
        pass
    if os.name == "nt" or Path("/proc/self/stat").exists():
        return None
    try:
        call = ["ps", "-o", "lstart=", "-p", str(process)]
        return subprocess.run(call, capture_output=True, text=True, timeout=5).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def _plain(text: object) -> str:
    """A text of a file that anyone may have written, without what could change a terminal."""
    return "".join(letter for letter in str(text)[:100] if letter.isprintable())


def _line_of(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _link_of(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
