"""Processes that take one run after the other: who gets what, and what is left of a run that fails."""

import os
import time
from functools import partial

import pytest
from benchmarks.pool import Job, next_job, pooled


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


FAILING = [(fails, "out of range"), (dies, "ended with 3"), (unpicklable, "lock")]


@pytest.mark.parametrize(("work", "told"), FAILING)
def test_one_that_fails_stops_no_other(work, told, tmp_path):
    jobs = [Job("first", "a", work), *(Job(f"{n}", "a", partial(who, n)) for n in range(3))]
    found = dict(pooled(jobs, tmp_path, at_once=1))
    assert told in found["first"]["error"]
    assert [found[f"{n}"]["value"] for n in range(3)] == [0, 1, 2]


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
