"""Errors of the disk: each names the file, the folder and what to do, and leaves what was there."""

from __future__ import annotations

import errno
import os
import pickle
import resource

import numpy as np
import pytest
import torch

from tests.support.forked import Forked
from tests.support.small_disk import CannotMount, fill, read_only, small_disk
from weft.errors import RunFailed, WeftError
from weft.training.run.checkpoint import save_tensors
from weft.training.run.log import Log
from weft.utils.files import new_folder, write_text
from weft.utils.tensor_files import save_file
from weft.utils.write_errors import CannotWrite, WriteFailed, explained, number_of
from weft.workflows.prediction_output import open_output

BIG = {"x": torch.zeros(100_000)}


@pytest.fixture
def disk(tmp_path):
    try:
        with small_disk(tmp_path / "disk") as folder:
            yield folder
    except CannotMount:
        pytest.skip("cannot mount a small disk here")


def tensors_in_folder(disk):
    with new_folder(disk / "bundle") as work:
        (work / "tasks").mkdir()
        save_file(BIG, work / "tasks" / "a.safetensors")


def predictions(disk):
    output = open_output(disk / "out.csv")
    try:
        for _ in range(1000):
            output.write([{"text": "x" * 1000}])
    finally:
        output.close(False)


WRITERS = {
    "text": (lambda disk: write_text(disk / "run.yaml", "x" * 10**6), "run.yaml"),
    "tensors in a folder": (tensors_in_folder, "bundle/tasks/a.safetensors"),
    "best weights": (lambda disk: save_tensors(disk / "best.safetensors", BIG), "best.safetensors"),
    "predictions": (predictions, "out.csv"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(disk, name):
    write, file = WRITERS[name]
    for content in ("run.yaml", "best.safetensors", "out.csv"):
        (disk / content).write_text("old")
    (disk / "bundle").mkdir()
    before = sorted(path.relative_to(disk) for path in disk.rglob("*"))
    with pytest.raises(WriteFailed) as told:
        write(disk)
    assert isinstance(told.value, RunFailed)  # exit code 1
    assert isinstance(told.value, OSError)
    assert told.value.errno == errno.ENOSPC
    place = disk / file
    assert str(told.value).startswith(
        f"{place}: the disk is full, and the file cannot be written to {place.parent} ("
    )
    assert "MB are free)\n  free some space there, or choose a folder on a different disk" in str(told.value)
    assert sorted(path.relative_to(disk) for path in disk.rglob("*")) == before
    assert (disk / "run.yaml").read_text() == "old"


def test_the_log_of_a_run(disk):
    log = Log(disk)
    fill(disk)
    with pytest.raises(WriteFailed, match=r"log\.jsonl: the disk is full"):
        log.write("step", loss="x" * 10_000)


def test_a_full_disk_can_still_be_locked_and_cleaned(disk):
    """The lock's record does not fit, and is not needed."""
    with new_folder(disk / "x") as work:
        (work / "a").touch()
    filler = fill(disk)
    with new_folder(disk / "x") as work:
        (work / "b").touch()
    filler.unlink()
    assert [path.name for path in disk.rglob("*")] == ["x", "b"]


def test_a_disk_that_can_hold_no_further_file(tmp_path):
    try:
        with small_disk(tmp_path / "disk", "8m", "nr_inodes=5") as disk:
            for number in range(4):
                (disk / str(number)).touch()
            with pytest.raises(WriteFailed, match="it can hold no further file: its inodes are used up"):
                write_text(disk / "x", "text")
    except CannotMount:
        pytest.skip("cannot mount a small disk here")


def test_a_read_only_disk(disk):
    read_only(disk)
    for write in (lambda: write_text(disk / "x", ""), lambda: tensors_in_folder(disk)):
        with pytest.raises(
            CannotWrite, match=r"(x|bundle): .*disk is on a file system that is mounted read-"
        ):
            write()
    with pytest.raises(CannotWrite) as told:
        open_output(disk / "x.csv")
    assert not isinstance(told.value, RunFailed)  # exit code 2


@pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="needs two users")
def test_a_folder_of_someone_else(disk):
    disk.chmod(0o755)
    before = [(folder, folder.stat().st_mode) for folder in disk.parents if folder != folder.parent]

    def write():
        os.setuid(65534)
        for attempt in (lambda: write_text(disk / "x", ""), lambda: tensors_in_folder(disk)):
            with pytest.raises(CannotWrite) as told:
                attempt()
            expected = (
                f": you have no permission to write to {disk} (its owner is root, its mode 755)\n  choose"
            )
            assert expected in str(told.value)
            assert not isinstance(told.value, RunFailed)

    for folder, mode in before:
        folder.chmod(mode | 0o711)
    try:
        assert Forked(write).wait() == 0
    finally:
        for folder, mode in before:
            folder.chmod(mode)


@pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="needs two users")
def test_a_quota(tmp_path):
    """The kernel's own, where it has quotas for such disks."""
    before = [(folder, folder.stat().st_mode) for folder in tmp_path.parents if folder != folder.parent]

    def write(disk):
        os.setuid(65534)
        for name, (attempt, _) in WRITERS.items():
            with pytest.raises(WriteFailed, match="your quota is used up") as told:
                attempt(disk)
            assert told.value.errno == errno.EDQUOT, name

    try:
        with small_disk(tmp_path / "disk", "8m", "usrquota,usrquota_block_hardlimit=64k") as disk:
            disk.chmod(0o777)
            for folder, mode in before:
                folder.chmod(mode | 0o711)
            tmp_path.chmod(0o755)
            assert Forked(lambda: write(disk)).wait() == 0
    except CannotMount:
        pytest.skip("cannot mount a disk with a quota here")
    finally:
        for folder, mode in before:
            folder.chmod(mode)


def test_a_limit_of_the_size_of_files(tmp_path):
    """Without root: the limit that `ulimit -f` sets, which the system enforces as it does a full disk."""

    def write():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        for name, (attempt, file) in WRITERS.items():
            with pytest.raises(WriteFailed) as told:
                attempt(tmp_path)
            assert told.value.errno == errno.EFBIG, name
            start = f"{tmp_path / file}: the file would be larger than the system allows in "
            assert str(told.value).startswith(start), str(told.value)
        assert list(tmp_path.iterdir()) == []

    assert Forked(write).wait() == 0


def test_errors_that_libraries_do_not_number(disk):
    with pytest.raises(OSError, match="requested and") as told:
        np.save(disk / "a.npy", np.zeros(100_000))
    assert number_of(told.value, disk) == errno.ENOSPC
    assert (
        number_of(ValueError("I/O error: Read-only file system (os error 30) at path"), disk) == errno.EROFS
    )
    assert number_of(ValueError("no error of the disk"), disk) is None
    assert number_of(FileNotFoundError(2, "No such file"), disk) is None


def test_what_was_only_read_is_not_blamed_on_the_output(tmp_path):
    def read():
        with explained(tmp_path / "out"):
            raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "data" / "rows.csv"))

    with pytest.raises(PermissionError) as told:
        read()
    assert not isinstance(told.value, WeftError)


def test_a_used_up_quota():
    def write():
        with explained("/a/b"):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with pytest.raises(
        WriteFailed, match=r"^/a/b: your quota is used up, and the file cannot be written to /a\n"
    ):
        write()


def test_messages_travel_between_processes():
    wrong = WriteFailed("/a/b", errno.EDQUOT)
    again = pickle.loads(pickle.dumps(wrong))
    assert (type(again), str(again), again.errno) == (WriteFailed, str(wrong), errno.EDQUOT)
    assert "input/output error" in str(WriteFailed("/a/b", errno.EIO))
