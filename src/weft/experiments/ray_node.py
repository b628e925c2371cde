"""What runs on the nodes of a Ray cluster: a check of what a grid needs there, and its cells.

A cell runs in a worker process as it does without Ray (`weft.experiments.worker`), in a pool of one. So a
crash of the cell does not end Ray's process, a cell that is to stop writes its checkpoint, and a cell whose
Ray process is killed ends too.

Where the node sees the folder of the comparison, the cell writes there, as locally. Elsewhere it runs in a
folder of the node; its record, its log and its checkpoints come back by way of Ray.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.errors import WeftError, words
from weft.experiments.identity import encoder_facts
from weft.experiments.job import Job, short
from weft.experiments.pool import Pool, Running
from weft.experiments.ray_store import CHECKPOINTS, packed_run, unpack_run
from weft.experiments.records import Records
from weft.training.run.checkpoint_files import last_checkpoint
from weft.utils.checksums import file_sha256
from weft.utils.ray_start import import_ray, node_name
from weft.utils.version import __version__

LEFT = "left"
"""The message of a cell that did not begin, because the command stops."""
EVERY = 1.0
"""The seconds between two questions to the store."""

_warm: dict[str, Pool] = {}


@dataclass(frozen=True)
class Needed:
    """What a grid needs on every node.

    Attributes:
        version: the version of weft.
        files: the sha256 of each data file by its absolute path.
        encoders: the hashes of each encoder, as `encoder_facts` returns them, by its name.
        probe: a file in the folder of the comparison; a node that sees it shares that folder.
        folder: the current folder of the command, which relative names of encoders start from.
    """

    version: str
    files: Mapping[str, str] = field(default_factory=dict)
    encoders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    probe: str = ""
    folder: str = ""


@dataclass(frozen=True)
class Found:
    """What a node has.

    Attributes:
        node: the node's name.
        missing: one line for each thing that is missing or different.
        shares: whether it sees the folder of the comparison.
    """

    node: str
    missing: Sequence[str]
    shares: bool


def check_node(needed: Needed) -> Found:
    """Look for everything that a grid needs on the node of this process.

    Args:
        needed: what it needs.
    """
    _enter(needed.folder)
    missing = []
    if needed.version != __version__:
        missing.append(f"weft is {__version__} there, and {needed.version} here")
    for name, sha256 in needed.files.items():
        path = Path(name)
        if not path.is_file():
            missing.append(f"{name} is missing")
        elif file_sha256(path) != sha256:
            missing.append(f"{name} has a different content than here")
    for name, facts in needed.encoders.items():
        there = encoder_facts(name)
        if there != facts:
            absent = "weights" not in there or there["weights"] == []
            missing.append(f"the encoder {name} is {'missing' if absent else 'a different one than here'}")
    return Found(node_name(import_ray()), missing, Path(needed.probe).is_file())


def run_cell(text: str, store: Any, probe: str, folder: str, apart: bool = False) -> dict[str, Any]:
    """Run one cell on the node of this process; returns the last message of its worker.

    Args:
        text: the job, as `Job.to_json` returns it.
        store: the handle of the store.
        probe: a file in the folder of the comparison.
        folder: the current folder of the command.
        apart: whether the cell runs in a folder of the node although the node sees that of the comparison.
    """
    ray = import_ray()
    job = Job.from_json(text)
    node = node_name(ray)
    if not answer(store.begin.remote(job.identity, node)):
        return {LEFT: True}
    _enter(folder)
    if not apart and Path(probe).is_file():
        return {**_work(job, store, None), "node": node}
    if job.needs or job.keep:
        why = "it uses the weights of other runs" if job.needs else "its weights are kept"
        return {"failed": f"{why}, and {node} does not see {job.out}; {put_on_shared()}", "node": node}
    try:
        return {**_elsewhere(job, store), "node": node}
    except WeftError as wrong:
        return {"failed": str(wrong), "node": node}


def put_on_shared() -> str:
    """What to do if a node does not see the folder of the results."""
    return f"put the folder of {words('--out', 'out')} on a file system that all nodes share"


def _elsewhere(job: Job, store: Any) -> dict[str, Any]:
    """Run a cell in a folder of this node; the message also holds its packed record and its log."""
    home = _home() / f"{hashlib.sha256(job.out.encode()).hexdigest()[:8]}-{short(job.identity)}"
    home.mkdir(exist_ok=True)
    here = replace(job, out=str(home))
    content = answer(store.kept.remote(job.identity))
    if content is not None:
        unpack_run(content, here.run_folder)
    message = _work(here, store, Kept(here, store))
    if here.log.is_file():
        message["log"] = here.log.read_bytes()
    if "done" in message:
        packed = home / "packed.records"
        Records(home).pack([job.identity], packed)
        message["records"] = packed.read_bytes()
        shutil.rmtree(home, ignore_errors=True)
    return message


def _home() -> Path:
    """The folder of this user's cells on a node that does not see the folder of the comparison."""
    home = Path(tempfile.gettempdir()) / f"weft-ray-{os.getuid()}"
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    facts = home.lstat()  # others may write to the temporary folder, and could have made it first
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise WeftError(f"{home} belongs to somebody else; remove it, or set TMPDIR for Ray's workers")
    return home


class Kept:
    """Sends the checkpoints of a cell to the store.

    Args:
        job: the job, with the folder of this node.
        store: the handle of the store.
    """

    def __init__(self, job: Job, store: Any) -> None:
        self._job, self._store = job, store
        self._last = last_checkpoint(self._folder)

    @property
    def _folder(self) -> Path:
        return self._job.run_folder / CHECKPOINTS

    def look(self) -> None:
        """Send the newest checkpoint if it was not sent yet."""
        newest = last_checkpoint(self._folder)
        if newest is None or newest == self._last:
            return
        with suppress(OSError):  # the next one is being written, and is sent instead
            content = packed_run(self._job.run_folder)
            # waits for the store: what a lost node has not sent is trained again
            answer(self._store.keep.remote(self._job.identity, content))
            self._last = newest


def _work(job: Job, store: Any, kept: Kept | None) -> dict[str, Any]:
    """Run a job in a worker process, and report its progress; returns the last message."""
    pool = _pool()
    sent: dict[str, Any] = {}
    jobs = [job]
    stopped, asked = 0, time.monotonic()

    def show(busy: Sequence[Running]) -> None:
        nonlocal stopped, sent, asked
        state = busy[0].state
        if state and state != sent:
            store.tell.remote(job.identity, dict(state))
            sent = dict(state)
        if kept is not None:
            kept.look()
        if not stopped and time.monotonic() - asked >= EVERY:
            asked = time.monotonic()
            if stopped := answer(store.stopped.remote()):
                pool.stop(signal.SIGTERM)  # Ray blocks SIGINT in its processes, and so in the worker

    last: dict[str, Any] = {}
    for _, message in pool.run(lambda: jobs[:1] if jobs else [], show, keep=True):
        jobs.clear()
        last = dict(message)
    if kept is not None and "interrupted" in last:
        kept.look()
    if stopped or import_ray().get_gpu_ids():  # Ray gives the GPU to others now; a stopped pool stays stopped
        pool.close()
        _warm.clear()
    return last


def answer(reference: Any) -> Any:
    """What Ray's reference refers to, awaited in a thread of its own.

    While the main thread of a task waits, Ray takes its cores to be free and starts another cell on them.

    Args:
        reference: the reference.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(import_ray().get, reference).result()


def _pool() -> Pool:
    """The pool of this process: its worker has imported torch, and serves one cell after another."""
    if "pool" not in _warm:
        _warm["pool"] = Pool(1)
    return _warm["pool"]


def _enter(folder: str) -> None:
    """Change to the current folder of the command, where the node has it."""
    with suppress(OSError):
        os.chdir(folder)
