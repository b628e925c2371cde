"""kill −9 at random moments: the resumed run ends with the weights of the uninterrupted one, bit by bit."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.support import child
from tests.support.fork_server import context
from tests.support.more import some_of
from tests.support.tiny_run import metrics_of, untimed, write_run


@pytest.fixture(scope="module", autouse=True)
def _server():
    """The fork server with all that it imports, before anything is timed."""
    process = context.Process(target=os.getpid)
    process.start()
    process.join(120)
    assert process.exitcode == 0


def start(arguments: list[str], threads: int, cache: Path):
    process = context.Process(target=child.train, args=(arguments, threads, str(cache)))
    process.start()
    return process


def finish(arguments, threads, cache) -> float:
    began = time.monotonic()
    process = start(arguments, threads, cache)
    process.join(120)
    assert process.exitcode == 0, arguments
    return time.monotonic() - began


def hashes(run: Path) -> dict[str, str]:
    """Of every file that holds weights, and of what was measured."""
    files = sorted((run / "bundle").rglob("*.safetensors"))
    found = {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    assert len(found) == 4
    found["metrics"] = json.dumps(metrics_of(run))
    return found


def events(run: Path) -> list[dict]:
    """The log without times."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    kept = [untimed(line) for line in lines]
    return [line for line in kept if line["event"] != "resume"]


KILLS = int(os.environ.get("WEFT_KILLS", "2"))
"""How many runs of each setting are killed; the full count is run apart, with WEFT_KILLS=20."""

MIXED = "train.mixed=true"
FULL = ("method=full", "train.lr=0.001")

SETTINGS = {
    "annealed, two threads": (["train.sampler=annealed", "train.accumulate=2"], 2),
    "mt_uncertainty": (["train.sampler=mt_uncertainty", *FULL], 1),
    "mt_uncertainty, gates": (
        ["method={use: morris, rank: 6, l0: {steps: 15}}", "train.steps=5", "train.sampler=mt_uncertainty"],
        1,
    ),
    "mt_uncertainty, made cheaper": (
        [
            "train.sampler={use: mt_uncertainty, every: 3, candidates: 4, exit_layer: 1}",
            "train.measure_uncertainty=4",
            *FULL,
        ],
        1,
    ),
    "pcgrad": (["train.conflict=pcgrad", MIXED, *FULL, "train.sampler=square_root"], 1),
    "morris, gates": (
        [
            "method={use: morris, rank: 6, l0: {steps: 9, penalty: 0.01, gate_lr: 0.5}}",
            "train.accumulate=2",
            "train.steps=11",
        ],
        1,
    ),
    "a task that stops": (["train.stop={patience: 1}", "train.evaluate_every=3", "train.lr=0.02"], 1),
    "separate, each task's best": (
        [
            "method=separate",
            "train.lr=0.001",
            "train.best=per_task",
            "train.sampler={use: temperature, replacement: true}",
        ],
        1,
    ),
    "what remembers": (
        [
            "train.conflict=grad_vac",
            "train.task_weights=learned",
            MIXED,
            "method={use: lora, rank: 2, share: all}",
            "train.optimizer=bert_adam",
            "train.absent=drift",
        ],
        1,
    ),
}


def lines(run: Path) -> int:
    """How many events the log has."""
    log = run / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def killed_at(process, run: Path, events: int, after: float) -> bool:
    """Kill the child some seconds after its log has so many events; False where it ended first.

    By its progress and not by the clock alone: a second run may take a fraction of the time of the first.
    """
    while process.is_alive() and lines(run) < events:
        time.sleep(0.001)
    time.sleep(after)
    process.kill()
    process.join(60)
    return process.exitcode == -signal.SIGKILL


KEPT = ("mt_uncertainty, gates", "what remembers")


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(SETTINGS, KEPT))
def test_killed_and_resumed_runs_end_bit_equal(name, tmp_path):
    overrides, threads = SETTINGS[name]
    run_file, cache = str(write_run(tmp_path)), tmp_path / "cache"
    call = [run_file, *overrides, "--out"]
    took = finish([*call, str(tmp_path / "straight")], threads, cache)
    expected = hashes(tmp_path / "straight")
    assert ("stops" in json.loads(expected["metrics"])) == ("stop" in str(overrides))
    draw = random.Random(name)
    total = lines(tmp_path / "straight")
    killed = 0
    for number in range(KILLS):
        out = tmp_path / f"killed-{number}"
        arguments = [*call, str(out)]
        # twice in one run, now and then
        for again in range(1 + number % 2):
            resume = ["--resume"] if (out / "run.yaml").exists() else []
            if (out / "metrics.json").exists():
                break
            process = start([*arguments, *resume], threads, cache)
            # the first kill is in the first half: a run that ends before it is killed shows nothing
            last = total - 2 if again else total // 2
            events_before = draw.randint(lines(out), max(lines(out), last))
            killed += killed_at(process, out, events_before, draw.uniform(0, took / total))
        if not (out / "metrics.json").exists():
            finish([*arguments, *(["--resume"] if (out / "run.yaml").exists() else [])], threads, cache)
        assert hashes(out) == expected
        assert events(out) == events(tmp_path / "straight")
        assert not [p for p in (out / "checkpoints").glob(".*") if p.is_dir()]
    assert killed >= KILLS // 2, "the children ended before they could be killed"
