"""A command line in a process of its own, which kills itself before a chosen access to a file.

`sys.addaudithook` calls the hook before Python opens, renames, links or deletes a file, makes or removes a
folder, locks a file, or looks up a function of the C library (such as that which exchanges two folders).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

COUNTED = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"),
    *("shutil.rmtree", "shutil.copyfile", "shutil.copytree", "fcntl.flock", "ctypes.dlsym"),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Accesses:
    """Counts accesses to files of a folder, and kills the process before one of them.

    Args:
        folder: the folder.
        kill_at: the number of the access, from 1; None kills at none.
    """

    def __init__(self, folder: str, kill_at: int | None) -> None:
        self.folder, self.kill_at, self.count = folder, kill_at, 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            if not isinstance(flags, int) or not flags & WRITING or not self._inside(arguments[0]):
                return
        elif event not in COUNTED or not self._inside(arguments[0]):
            return
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _inside(self, path: object) -> bool:
        """Whether a path is in the folder; names relative to an open folder count, and so do numbers."""
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str | Path):
            return True
        return not os.path.isabs(path) or str(path).startswith(self.folder)


def run(arguments: list[str], folder: str, cache: str, kill_at: int | None, report: str) -> None:
    """Run a command line; its output and, at the end, the number of accesses go to files.

    Args:
        arguments: the command line without `weft`.
        folder: the folder whose accesses are counted, which is the working folder.
        cache: the token cache.
        kill_at: before which access the process is killed.
        report: the start of the names of the files: REPORT.out, and REPORT.count if it is not killed.
    """
    import torch

    import weft.cli

    os.environ["WEFT_CACHE"] = cache
    os.environ["TMPDIR"] = f"{folder}.tmp"
    os.makedirs(f"{folder}.tmp", exist_ok=True)
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(f"{report}.out", "w", encoding="utf-8")  # noqa: SIM115
    accesses = Accesses(folder, kill_at)
    sys.addaudithook(accesses)
    code = 70
    try:
        code = weft.cli.run(arguments)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        accesses.kill_at = None
        sys.stdout.flush()
        with open(f"{report}.count", "w") as file:
            file.write(str(accesses.count))
        os._exit(code)
