"""The store of a grid on Ray: an actor on the machine of the command, which cells report to.

Cells tell it what they do, ask it whether they may begin, and learn from it that they are to stop. A cell
whose machine does not see the folder of the comparison also leaves its checkpoints here; the store writes
them into that folder, so that they outlive the machine, and the command too.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

from weft.experiments.job import short
from weft.training.run.checkpoint_files import COPY, PREFIX, last_checkpoint, problem_of
from weft.utils.files import write_bytes

CHECKPOINTS = "checkpoints"
NOT_KEPT = ("bundle", "tensorboard", "wandb")
"""Folders of a run that a resumed run does not read."""


class Store:
    """The methods that cells and the command call by way of Ray.

    Args:
        out: the folder of the comparison, which this machine sees.
    """

    def __init__(self, out: str) -> None:
        self._out = Path(out)
        self._news: list[tuple[str, dict[str, Any]]] = []
        self._closed = False
        self._number = 0

    async def begin(self, identity: str, node: str) -> bool:
        """Whether a cell may begin on a node; each attempt is reported to the command."""
        if self._closed:
            return False
        self._news.append((identity, {"node": node}))
        return True

    async def tell(self, identity: str, state: dict[str, Any]) -> None:
        """Report the progress of a cell."""
        self._news.append((identity, state))

    async def take(self) -> list[tuple[str, dict[str, Any]]]:
        """What was reported since the last call."""
        news, self._news = self._news, []
        return news

    async def close(self) -> None:
        """Let no more cells begin."""
        self._closed = True

    async def stop(self, number: int) -> None:
        """Let no more cells begin, and ask those that run to write their checkpoints, as by a signal."""
        self._closed, self._number = True, number

    async def stopped(self) -> int:
        """The number of the signal of `stop`; 0: there was none."""
        return self._number

    async def keep(self, identity: str, content: bytes) -> None:
        """Keep the last checkpoint of a cell."""
        write_bytes(kept_file(self._out, identity), content)

    async def kept(self, identity: str) -> bytes | None:
        """The last checkpoint of a cell; None: there is none."""
        file = kept_file(self._out, identity)
        return file.read_bytes() if file.is_file() else None


def kept_file(out: Path, identity: str) -> Path:
    """The file of a cell's checkpoint, if its machine does not see the folder `out`."""
    folder = out / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{short(identity)}.zip"


def packed_run(folder: Path) -> bytes:
    """The files that a run needs to be resumed, with its newest checkpoint, as one zip.

    Args:
        folder: the run's folder.
    """
    newest = last_checkpoint(folder / CHECKPOINTS)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if not path.is_file() or relative.parts[0] in NOT_KEPT or path.name.startswith("."):
                continue
            of_older = len(relative.parts) == 3 and relative.parts[1].startswith(PREFIX)
            if of_older and (newest is None or relative.parts[1] != newest.name):
                continue
            if path.name.endswith(COPY):  # a second copy of the best weights, for two checkpoints
                continue
            archive.writestr(zipfile.ZipInfo(relative.as_posix()), path.read_bytes())
    return packed.getvalue()


def unpack_run(content: bytes, folder: Path) -> None:
    """Write the files of `packed_run` into a new folder; what was there is removed.

    Files may have changed while they were packed. If the checkpoint is damaged, nothing is written, and the
    run starts again.

    Args:
        content: the zip.
        folder: the run's folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(folder)
    newest = last_checkpoint(folder / CHECKPOINTS)
    if newest is None or problem_of(newest) is not None:
        shutil.rmtree(folder)
