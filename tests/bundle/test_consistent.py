"""A bundle that another process replaces while it is read: the old one or the new one, never damage."""

from __future__ import annotations

import threading

import pytest
import torch

import weft
from tests.support.apart import A, B, C, logits
from weft.bundle import consistent, load
from weft.bundle.consistent import Hold, Replaced, consistently
from weft.bundle.one_task import task_of, with_task
from weft.errors import WeftError
from weft.utils.files import new_folder


def replace(folder, text):
    with new_folder(folder) as work:
        (work / "file").write_text(text)


def test_it_is_read_again_where_it_was_replaced(tmp_path):
    folder, seen = tmp_path / "x", []
    replace(folder, "old")

    def read():
        seen.append((folder / "file").read_text())
        if len(seen) == 1:
            replace(folder, "new")
        return seen[-1]

    assert consistently(folder, read) == "new"
    assert seen == ["old", "new"]


def test_an_error_counts_only_where_nothing_was_replaced(tmp_path):
    folder, calls = tmp_path / "x", []
    replace(folder, "0")

    def damaged():
        calls.append(1)
        if len(calls) < 3:
            replace(folder, str(len(calls)))
        raise WeftError("it is damaged")

    with pytest.raises(WeftError, match="it is damaged"):
        consistently(folder, damaged)
    assert len(calls) == 3


def test_it_gives_up_in_the_end(tmp_path):
    folder, calls = tmp_path / "x", []
    replace(folder, "0")

    def read():
        calls.append(1)
        replace(folder, str(len(calls)))

    with pytest.raises(Replaced, match="was replaced by another process while it was read; try again"):
        consistently(folder, read)
    assert len(calls) == consistent.ATTEMPTS


def test_a_folder_that_is_gone_is_another(tmp_path):
    folder = tmp_path / "x"
    replace(folder, "0")
    with pytest.raises(Replaced), Hold(folder) as hold:  # noqa: PT012
        (folder / "file").unlink()
        folder.rmdir()
        hold.check()


def test_a_load_in_the_middle_of_a_change(make, tmp_path, monkeypatch):
    """After bundle.json was read, after the files were verified, and before they are opened."""
    bundle, other = make("one", [A, B]), make("two", [A, B, C], seed=5)
    new = weft.load(other)
    for name in ("read_tasks", "open_files"):
        path = weft.load(bundle).save(tmp_path / name)
        real, calls = getattr(load, name), []

        def replacing(*args, real=real, calls=calls, path=path):
            calls.append(1)
            if len(calls) == 1:
                new.save(path)
            return real(*args)

        with monkeypatch.context() as patch:
            patch.setattr(load, name, replacing)
            model = weft.load(path)
        assert [task.name for task in model.tasks] == ["a", "b", "c"]
        assert torch.equal(logits(model, "a"), logits(new, "a"))


def test_a_writer_whose_bundle_was_replaced_meanwhile_writes_nothing(make, monkeypatch):
    bundle, other = make("one", [A, B]), weft.load(make("two", [B, C], seed=5))
    from weft.bundle import one_task

    real = one_task.write_manifest

    def replacing(*args):
        real(*args)
        other.save(bundle)

    monkeypatch.setattr(one_task, "write_manifest", replacing)
    with pytest.raises(Replaced):
        weft.remove_task(bundle, "a", bundle)
    assert [task.name for task in weft.load(bundle).tasks] == ["b", "c"]


@pytest.mark.parametrize("rounds", [30, pytest.param(300, marks=pytest.mark.more)])
def test_readers_beside_a_writer(rounds, make):
    """Settings of a task are rewritten again and again; every reader gets one of the two."""
    bundle = make("one", [A, B, C])
    model = weft.load(bundle)
    from weft.bundle.manifest import read_bundle
    from weft.bundle.save import task_tensors

    tensors = task_tensors(model, "b")
    two = [{**B.settings(), "metrics": [metric]} for metric in ("accuracy", "macro_f1")]
    done, wrong, seen = threading.Event(), [], set()

    def read():
        while not done.is_set():
            try:
                seen.add(read_bundle(bundle)[1]["b"].metrics)
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(rounds):
            with_task(bundle, bundle, two[number % 2], tensors)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert {("accuracy",), ("macro_f1",)} <= seen
    assert task_of(bundle, read_bundle(bundle)[0], "b").name == "b"
