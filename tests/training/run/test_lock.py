"""One writer per run's folder, and what `--resume` says of a run that has ended."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time

import pytest

import weft
from tests.support import child
from tests.support.fork_server import context
from tests.support.forked import Forked, wait_for
from tests.support.more import some_of
from tests.support.tiny_run import assert_refused, rows_of, write_run
from weft import cli
from weft.errors import RunFailed
from weft.training.run.folder import RunEnded
from weft.training.run.lock import writing_run
from weft.utils.lock_file import LockHeld

pytestmark = pytest.mark.usefixtures("token_cache")

FAST = weft.Training(steps=4, batch_size=8, max_length=16, lr=0.01, checkpoint_every=2, log_every=1)
CONTENT = ["bundle", "checkpoints", "log.jsonl", "metrics.json", "run.yaml"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    write_run(path, steps=4, evaluate_every=2, checkpoint_every=2)
    return path


@pytest.fixture
def model(folder):
    rows = {"train": rows_of("cat", 20, 1), "validation": rows_of("cat", 8, 2)}
    return weft.Model(folder / "encoder", [weft.Task("cat", labels=("no", "yes"), files=rows)], "frozen")


def holding(out, tmp_path):
    def hold():
        with writing_run(out):
            (tmp_path / "ready").touch()
            time.sleep(600)

    process = Forked(hold)
    wait_for(tmp_path / "ready")
    return process


def refused(out):
    """Whether a different process is refused."""

    def attempt():
        with pytest.raises(LockHeld), writing_run(out):
            pass

    return Forked(attempt).wait() == 0


def test_a_second_start_is_refused_at_once(folder, model, tmp_path, capsys):
    out = tmp_path / "out"
    process = holding(out, tmp_path)
    capsys.readouterr()
    holder = f"process {process.process} on {socket.gethostname()} (weft.train, since "
    advice = "wait until it has ended, stop it, or set a different --out"
    for options in ([], ["--resume"]):
        code = cli.run(["train", str(folder / "run.yaml"), "--out", str(out), *options])
        assert_refused(code, capsys.readouterr(), [holder, f"is writing to {out}", advice])
    for settings in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(LockHeld, match="set a different out"):
            weft.train(model, FAST, out, progress=False, **settings)
    assert [path.name for path in out.iterdir()] == [".weft-lock"]
    process.kill()
    # what a killed process leaves does not count as content
    weft.train(model, FAST, out, progress=False)
    assert sorted(path.name for path in out.iterdir()) == CONTENT


@pytest.mark.parametrize("repeats", some_of([2, 20], 1))
def test_of_two_starts_at_once_exactly_one_trains(folder, tmp_path, repeats):
    for number in range(repeats):
        out = tmp_path / str(number)
        call = [str(folder / "run.yaml"), "--out", str(out)]
        both = [
            context.Process(
                target=child.train, args=([*call, f"train.seed={seed}"], 1, str(tmp_path / "cache"))
            )
            for seed in (1, 2)
        ]
        for process in both:
            process.start()
        for process in both:
            process.join(300)
        assert sorted(process.exitcode for process in both) == [0, 2]
        seed = 1 + [process.exitcode for process in both].index(0)
        assert f"seed: {seed}\n" in (out / "run.yaml").read_text()
        assert sorted(path.name for path in out.iterdir()) == CONTENT


class Hook(weft.Component):
    """Calls a function before a step."""

    name = "hook"

    def __init__(self, step, function):
        self.step, self.function = step, function

    def before_step(self, step):
        if step == self.step:
            self.function()


def test_the_lock_is_held_to_the_end_even_if_the_folder_is_replaced(model, tmp_path):
    out = tmp_path / "out"
    weft.train(model, FAST, out, progress=False)
    seen = []
    weft.train(
        model,
        FAST,
        out,
        progress=False,
        overwrite=True,
        components=[Hook(2, lambda: seen.append(refused(out)))],
    )
    assert seen == [True]
    assert sorted(path.name for path in out.iterdir()) == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("again", [True, False])
def test_a_run_whose_folder_is_gone_does_not_write_into_the_next_one(model, tmp_path, again):
    out = tmp_path / "out"

    def delete():
        shutil.rmtree(out)
        if again:
            out.mkdir()
            (out / "log.jsonl").write_text("of a different run\n")

    with pytest.raises(RunFailed, match="was deleted or replaced while this run was training"):
        weft.train(model, FAST, out, progress=False, components=[Hook(2, delete)])
    if again:
        assert [path.name for path in out.iterdir()] == ["log.jsonl"]
        assert (out / "log.jsonl").read_text() == "of a different run\n"
    else:
        assert not out.exists()


def test_a_call_that_fails_leaves_no_folder(folder, tmp_path, capsys):
    call = ["train", str(folder / "run.yaml"), "--out", str(tmp_path / "a" / "b")]
    for options in (["train.max_length=100000"], ["--resume"], ["--device", "cuda:99"]):
        assert cli.run([*call, *options]) == 2, options
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    capsys.readouterr()
    code = cli.run([*call[:3], str(tmp_path / "file")])
    assert_refused(code, capsys.readouterr(), ["file is a file; expected a folder as --out"])


def test_several_processes_are_one_writer(folder, tmp_path):
    """The first of them has the lock: they do not exclude each other, and are refused together."""

    def start(out):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        calls = [[str(folder / "run.yaml"), "--out", str(out)]]
        together = [
            context.Process(target=child.train_together, args=(calls, rank, 2, port, str(tmp_path / "cache")))
            for rank in range(2)
        ]
        for process in together:
            process.start()
        for process in together:
            process.join(300)
        return [process.exitcode for process in together]

    process = holding(tmp_path / "held", tmp_path)
    assert start(tmp_path / "held") == [2, 2]
    assert f"process {process.process} on " in (tmp_path / "cache.log").read_text()
    process.kill()
    assert start(tmp_path / "free") == [0, 0]
    assert sorted(path.name for path in (tmp_path / "free").iterdir()) == CONTENT


def test_resuming_a_run_that_has_ended(folder, tmp_path, capsys):
    out = tmp_path / "out"
    call = ["train", str(folder / "run.yaml"), "--out", str(out)]
    assert cli.run([*call, "--json"]) == 0
    finished = json.loads(capsys.readouterr().out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert cli.run([*call, "--resume"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"the run in {out} has ended, and nothing is left to do")
    assert f"weft evaluate {out}" in told.out
    assert f"add start={out} and a different --out, without --resume" in told.out
    assert cli.run([*call, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == finished
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    # other settings were asked for than those that it has ended with
    code = cli.run([*call, "--resume", "train.steps=9"])
    assert_refused(code, capsys.readouterr(), ["train.steps: 4 then, 9 now"])
    run_file = weft.load_run(folder / "run.yaml")
    from weft.workflows.train import train_run

    with pytest.raises(RunEnded, match="has ended"):
        train_run(run_file, out, resume=True)


def test_only_leftovers_are_no_content(folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in (".weft-lock", ".bundle.weft-lock", ".run.yaml.weft-" + "0" * 16, ".run.yaml.new"):
        (out / name).touch()
    (out / ".bundle.weft-0123456789abcdef").mkdir()
    assert cli.run(["train", str(folder / "run.yaml"), "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == CONTENT
    assert os.listdir(out / "checkpoints") != []
