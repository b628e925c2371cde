"""A process that is forked while it computes: the child answers too, and never waits for a missing thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tests.support.tiny_run import save_encoder
from weft.utils import forks
from weft.utils.threads import RenewedLock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PROGRAM = """
import os, sys, threading, warnings
import torch
import weft

torch.set_num_threads(2)
tasks = [weft.Task("a", labels=("no", "yes"))]
model = weft.Model(sys.argv[1], tasks, "lora").eval()
def labels():
    return [answer["label"] for answer in model.predict("a", ["the cat sees a dog", "not here"] * 70)]
expected = labels()
torch.ones(4_000_000).exp().sum()  # large enough for two threads
stream = model.predict_stream(("a", "the cat") for _ in range(10_000))
next(stream)
held = threading.Event()
def hold():
    with model.lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert labels() == expected
    assert [w.category for w in caught if "forked" in str(w.message)] == [RuntimeWarning]
    assert torch.get_num_threads() == 1
    torch.ones(4_000_000).exp().sum()
    with model.lock:
        pass
    try:
        for _ in stream:
            pass
        raise AssertionError("the stream went on without its thread")
    except weft.WeftError as wrong:
        assert "cannot be continued in the child" in str(wrong)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert torch.get_num_threads() == 2
os._exit(0)
"""


@pytest.mark.slow
def test_a_child_predicts_as_its_parent(tmp_path):
    folder = save_encoder(tmp_path / "encoder")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def in_child(work):
    """Whether a condition holds in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_lock_that_another_thread_holds_is_free_in_the_child():
    lock, held, done = RenewedLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def take():
        with lock:
            return True

    try:
        assert in_child(take)
    finally:
        done.set()
        thread.join()


def test_only_children_of_a_process_that_has_computed_are_limited(monkeypatch):
    monkeypatch.setattr(forks, "_computed", False)
    monkeypatch.setattr(forks, "_forked", False)
    assert in_child(lambda: not forks._forked)
    forks.before_computing()
    assert in_child(lambda: forks._forked and not forks._computed)
