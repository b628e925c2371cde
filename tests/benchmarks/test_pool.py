"""Processes that take one run after the other: who gets what, and what is left of a run that fails."""

import multiprocessing
import os
import threading
import time
from functools import partial

import pytest
from benchmarks.experiments.pool import Job, next_job, pooled


def who(value=0):
    return {"pid": os.getpid(), "value": value}


def fails():
    raise ValueError("out of range")


def dies():
    os._exit(3)


def sleeps():
    time.sleep(60)
    return {}


def unpicklable():
    return {"lock": __import__("threading").Lock()}


def nothing():
    return None


def breaks():
    return {"found": Breaks()}


def dies_later():
    threading.Timer(0.3, os._exit, (1,)).start()
    return {}


def leaves_a_child():
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    os._exit(9)


def says():
    os.write(1, b"a line for the log")
    return {}


def test_a_free_process_goes_on_with_what_it_knows():
    waiting = [Job("1", "a", who), Job("2", "b", who), Job("3", "c", who), Job("4", "b", who)]
    assert next_job(waiting, ["b"], {"a"}).name == "2"
    assert next_job(waiting, ["d"], {"a"}).name == "2"  # a is another's
    assert next_job(waiting, [], set()).name == "1"
    assert next_job(waiting[:1], ["d"], {"a"}).name == "1"  # better than nothing to do


def test_a_few_processes_do_all_runs(tmp_path):
    jobs = [Job(f"{kind}{n}", kind, partial(who, n)) for n in range(3) for kind in "ab"]
    found = dict(pooled(jobs, tmp_path, at_once=2))
    assert {job.name: found[job.name]["value"] for job in jobs} == {
        job.name: int(job.name[1]) for job in jobs
    }
    pids = {result["pid"] for result in found.values()}
    assert len(pids) <= 2
    assert os.getpid() not in pids


class Breaks:
    """What is sent, and cannot be read again."""

    def __reduce__(self):
        return int, ("no number",)


FAILING = [
    (fails, "out of range"),
    (dies, "ended with 3"),
    (unpicklable, "lock"),
    (nothing, "NoneType"),
    (breaks, "no number"),
    (lambda: {"a": 1}, "pickle"),
]


@pytest.mark.parametrize(("work", "told"), FAILING)
def test_one_that_fails_stops_no_other(work, told, tmp_path):
    jobs = [Job("first", "a", work), *(Job(f"{n}", "a", partial(who, n)) for n in range(3))]
    found = dict(pooled(jobs, tmp_path, at_once=1))
    assert told in found["first"]["error"]
    assert [found[f"{n}"]["value"] for n in range(3)] == [0, 1, 2]


def test_a_process_that_dies_between_two_runs_is_replaced(tmp_path):
    runs = pooled([Job("first", "a", dies_later), Job("second", "a", who)], tmp_path, at_once=1)
    assert next(runs) == ("first", {})
    time.sleep(1.0)
    name, found = next(runs)
    assert name == "second"
    assert "pid" in found


def test_a_death_is_seen_though_a_child_of_it_lives(tmp_path):
    began = time.monotonic()
    found = dict(pooled([Job("a", "a", leaves_a_child)], tmp_path, at_once=1))
    assert "ended with 9" in found["a"]["error"]
    assert time.monotonic() - began < 15


def orphaned(folder, pids):
    """In a process that is killed: start one that has nothing to do, and one that has."""
    runs = pooled([Job(str(n), str(n), partial(who, n)) for n in range(2)], folder, at_once=2)
    found = [next(runs)[1]["pid"] for _ in range(2)]
    pids.send(found)
    time.sleep(60)


def test_processes_do_not_outlive_who_started_them(tmp_path):
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    starter = context.Process(target=orphaned, args=(tmp_path, theirs))
    starter.start()
    pids = ours.recv()
    starter.kill()
    starter.join()
    for _ in range(50):
        if not any(is_there(pid) for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError("they are still there")


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


def test_a_run_that_takes_too_long_is_ended(tmp_path):
    began = time.monotonic()
    found = dict(pooled([Job("slow", "a", sleeps), Job("next", "b", who)], tmp_path, at_once=1, limit=0.5))
    assert time.monotonic() - began < 20
    assert "ended after" in found["slow"]["error"]
    assert "pid" in found["next"]


def test_after_its_time_no_run_starts(tmp_path):
    assert not dict(pooled([Job("late", "a", who)], tmp_path, at_once=2, stop_starting=time.monotonic()))


def test_what_a_run_prints_is_in_its_log(tmp_path):
    assert dict(pooled([Job("told", "a", says)], tmp_path, at_once=1)) == {"told": {}}
    assert "a line for the log" in (tmp_path / "told.log").read_text()
