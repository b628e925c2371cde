"""The pool: which cell a free process gets, and what happens to processes that die."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_run import write_run
from tests.support.warm_workers import use_warm_workers
from weft.config.run_file import load_run
from weft.experiments.job import Job
from weft.experiments.pool import Pool, next_job


@pytest.fixture(params=["forked", pytest.param("real", marks=pytest.mark.more)])
def workers(request, monkeypatch):
    """Workers that are forked; real ones first import torch."""
    if request.param == "forked":
        use_warm_workers(monkeypatch)


def job(name, kind="a", **more):
    return Job(name, name * 64, kind, "grid.yaml", "/", {}, **more)


def test_a_process_prefers_what_it_has_run():
    waiting = [job("1", "a"), job("2", "b"), job("3", "c")]
    assert next_job(waiting, ["c"], {"a", "b"}).name == "3"
    assert next_job(waiting, [], {"a", "c"}).name == "2"
    assert next_job(waiting, [], {"a", "b", "c"}).name == "1"


@given(
    st.lists(st.sampled_from("abc"), min_size=1),
    st.lists(st.sampled_from("abc")),
    st.sets(st.sampled_from("abc")),
)
def test_some_job_is_always_chosen(kinds, done, elsewhere):
    waiting = [job(str(n % 10), kind) for n, kind in enumerate(kinds)]
    assert next_job(waiting, done, elsewhere) in waiting


def cells(folder, names, **train):
    raw = load_run(write_run(folder, **train)).resolved
    return [
        Job(name, name * 64, "a", "grid.yaml", str(folder), raw, out=str(folder / "out"), device="cpu")
        for name in names
    ]


def run_all(pool, jobs, show=lambda busy: None):
    waiting = {one.identity: one for one in jobs}
    ended = {}
    for one, message in pool.run(lambda: [j for i, j in waiting.items() if i not in pool.running], show):
        waiting.pop(one.identity)
        ended[one.name] = message
    return ended


def test_jobs_run_one_after_another_in_one_process(tmp_path):
    """With a real worker, as users have it."""
    pool = Pool(1, {"OMP_NUM_THREADS": "1"})
    processes = set()
    ended = run_all(
        pool, cells(tmp_path, "ab", steps=2), lambda busy: processes.update(w.process.pid for w in busy)
    )
    assert [message["steps"] for message in ended.values()] == [2, 2]
    assert len(processes) == 1
    assert pool.workers == []


@pytest.mark.usefixtures("workers")
def test_a_process_that_dies_fails_its_cell_alone(tmp_path):
    pool = Pool(1, {"OMP_NUM_THREADS": "1"})
    killed = []

    def show(busy):
        for worker in busy:
            if worker.job.name == "a" and worker.state and not killed:
                killed.append(worker.process.pid)
                os.kill(worker.process.pid, signal.SIGKILL)

    # the first would run for minutes, so that it cannot end before it is killed
    both = [*cells(tmp_path / "a", "a", steps=100_000), *cells(tmp_path / "b", "b", steps=5)]
    ended = run_all(pool, both, show)
    assert ended["a"]["failed"] == f"the process ended with -{int(signal.SIGKILL)}"
    assert ended["b"]["steps"] == 5


@pytest.mark.usefixtures("workers")
def test_workers_end_when_the_caller_fails(tmp_path):
    pool = Pool(1, {"OMP_NUM_THREADS": "1"})
    seen = []

    def show(busy):
        seen.extend(worker.process for worker in busy)
        if any(worker.state for worker in busy):
            raise RuntimeError("the caller fails")

    with pytest.raises(RuntimeError):
        run_all(pool, cells(tmp_path, "a", steps=100_000), show)
    assert seen[0].poll() is not None
