"""Ctrl-C and SIGTERM stop a run between two steps: its checkpoint and its best weights are written."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest
import torch

import weft
from tests.support import child
from tests.support.fork_server import context
from tests.support.more import some_of
from tests.support.tiny_run import metrics_of, write_run
from weft.config import load_run
from weft.config.build import model_of
from weft.errors import command_line
from weft.training.run.interrupt import CHECKPOINT_SECONDS, Interrupted, Interruptions
from weft.utils.processes import Processes

pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.fixture(autouse=True)
def signals_are_not_ignored():
    """A shell's background job ignores SIGINT, and weft then ignores it too; the tests send it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Signal(weft.Component):
    """Sends this process a signal after a step, as a user or a batch system does."""

    name = "signal"

    def __init__(self, step, number):
        self.at, self.number = step, number

    def after_step(self, done):
        if self.run.state.step == self.at:
            os.kill(os.getpid(), self.number)


def train(file, out, *overrides, **more):
    run_file = load_run(file, list(overrides))
    model = model_of(run_file)
    return model, weft.train(
        model, run_file.training, out, resolved=run_file.resolved, progress=False, **more
    )


def weights(folder):
    return weft.load(folder).state_dict()


BOTH = [(number, step) for number in (signal.SIGINT, signal.SIGTERM) for step in (4, 7)]


@pytest.mark.parametrize(("number", "step"), some_of(BOTH, [BOTH[0], BOTH[3]]))
def test_a_stopped_run_has_a_checkpoint_and_a_bundle_and_ends_as_if_it_had_not_been(number, step, tmp_path):
    """With no checkpoints configured; at step 4 before the first evaluation, at step 7 after it."""
    file = write_run(tmp_path, steps=10, evaluate_every=5, checkpoint_every=0)
    train(file, tmp_path / "straight")
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as stopped:
        train(file, tmp_path / "out", components=[Signal(step, number)])
    assert (stopped.value.step, stopped.value.signal) == (step, number)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert [path.name for path in (tmp_path / "out" / "checkpoints").glob("step-*")] == [f"step-{step:08d}"]
    assert not (tmp_path / "out" / "metrics.json").exists()
    best = weights(tmp_path / "out")
    from safetensors.torch import load_file

    at = tmp_path / "out" / "checkpoints"
    file_of_best = at / (f"step-{step:08d}/weights.safetensors" if step < 5 else "best-00000005.safetensors")
    for name, tensor in load_file(file_of_best).items():
        assert torch.equal(best[name], tensor), name
    assert weft.evaluate(tmp_path / "out")["tasks"]

    train(file, tmp_path / "out", resume=True)
    straight, resumed = weights(tmp_path / "straight"), weights(tmp_path / "out")
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    metrics = [metrics_of(tmp_path / run) for run in ("straight", "out")]
    assert metrics[0] == metrics[1]


def test_a_signal_in_the_last_step_lets_the_run_end(tmp_path):
    file = write_run(tmp_path, steps=4, evaluate_every=2, checkpoint_every=0)
    _, run = train(file, tmp_path / "out", components=[Signal(4, signal.SIGTERM)])
    assert (run.folder / "metrics.json").exists()


def test_gates_that_are_not_decided_make_no_bundle(tmp_path):
    file = write_run(tmp_path, steps=4, evaluate_every=0, checkpoint_every=0)
    method = "method={use: morris, rank: 4, l0: {steps: 6}}"
    with pytest.raises(Interrupted):
        train(file, tmp_path / "out", method, components=[Signal(3, signal.SIGTERM)])
    assert (tmp_path / "out" / "checkpoints" / "step-00000003").is_dir()
    assert not (tmp_path / "out" / "bundle").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", some_of([signal.SIGINT, signal.SIGTERM], 1))
def test_the_command_leaves_with_the_exit_code_of_the_signal(number, tmp_path):
    file = write_run(tmp_path, steps=100_000, evaluate_every=0, checkpoint_every=0, log_every=1)
    arguments = [str(file), "--out", str(tmp_path / "out")]
    process = context.Process(target=child.train, args=(arguments, 1, str(tmp_path / "cache")))
    process.start()
    wait_for(tmp_path / "out" / "log.jsonl", 5, process)
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode == 128 + number
    assert weft.load(tmp_path / "out").tasks


def test_several_processes_stop_at_one_step(tmp_path):
    """One of them is signalled; both leave with that exit code after one checkpoint."""
    file = write_run(tmp_path, steps=100_000, evaluate_every=0, checkpoint_every=0, log_every=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    calls = [[str(file), "--out", str(tmp_path / "out")]]
    processes = [
        context.Process(target=child.train_together, args=(calls, rank, 2, port, str(tmp_path / "cache")))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    wait_for(tmp_path / "out" / "log.jsonl", 5, processes[0])
    os.kill(processes[1].pid, signal.SIGTERM)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [143, 143]
    (checkpoint,) = (tmp_path / "out" / "checkpoints").glob("step-*")
    assert int(checkpoint.name[5:]) % 8 == 0
    assert weft.load(tmp_path / "out").tasks


def wait_for(log, lines, process):
    """Wait for so many lines, however long it takes, while the process runs."""
    while not (log.exists() and log.read_bytes().count(b"\n") >= lines):
        assert process.is_alive(), "the process ended before"
        time.sleep(0.005)


def test_a_second_signal_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with Interruptions(0, Processes()) as interruptions:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruptions.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Interruptions(0, Processes()):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_trains_without_handling_signals(tmp_path):
    file, runs = write_run(tmp_path, steps=2, evaluate_every=0), []
    thread = threading.Thread(target=lambda: runs.append(train(file, tmp_path / "out")))
    thread.start()
    thread.join(120)
    assert (runs[0][1].folder / "metrics.json").exists()


def test_by_default_a_checkpoint_is_written_every_five_minutes():
    now = [0.0]
    interruptions = Interruptions(weft.Training().checkpoint_every, Processes(), lambda: now[0])
    due = []
    for step in range(1, 8):
        now[0] += 100
        due.append(interruptions.checkpoint_due(step))
        if due[-1]:
            interruptions.saved()
    assert CHECKPOINT_SECONDS == 300
    assert due == [False, False, True, False, False, True, False]
    assert [Interruptions(3, Processes()).checkpoint_due(step) for step in (2, 3, 4)] == [False, True, False]
    assert not Interruptions(0, Processes(), lambda: time.monotonic() * 1e6).checkpoint_due(5)


def test_more_steps_are_refused_with_the_way_to_get_them(tmp_path):
    file = write_run(tmp_path, steps=6, evaluate_every=0, checkpoint_every=2)
    with pytest.raises(Interrupted):
        train(file, tmp_path / "out", components=[Signal(3, signal.SIGTERM)])
    with pytest.raises(weft.WeftError, match=r"train\.steps: 6 then, 9 now") as refused:
        train(file, tmp_path / "out", "train.steps=9", resume=True)
    assert f"weft.start_from(model, {str(tmp_path / 'out')!r})" in str(refused.value)
    train(file, tmp_path / "out", resume=True)
    with pytest.raises(weft.WeftError, match="has ended") as refused:
        train(file, tmp_path / "out", resume=True)
    assert f"weft.start_from(model, {str(tmp_path / 'out')!r})" in str(refused.value)
    # the command line names the key of the run file
    with command_line(), pytest.raises(weft.WeftError, match=f"start={tmp_path / 'out'}"):
        train(file, tmp_path / "out", resume=True)
    run_file = load_run(file, [f"start={tmp_path / 'out'}", "train.steps=1"])
    assert run_file.start is not None
