"""Several processes: the loss curve and the weights of one process with the same global batch."""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.support import child
from tests.support.fork_server import context
from tests.support.more import params_of, some_of
from tests.support.tiny_run import write_run

GATES = "method={use: morris, rank: 6, l0: {steps: 5, penalty: 0.01, gate_lr: 0.5}}"
MIXED = "train.mixed=true"

CASES = {
    "one task a batch": [],
    "example_mean, mixed": ["train.loss=example_mean", MIXED],
    "sum, mixed, in two parts": ["train.loss=sum", MIXED, "train.accumulate=2", "train.lr=0.001"],
    "task_mean, mixed, in three parts": [MIXED, "train.accumulate=3", "method=full", "train.lr=0.001"],
    "fewer examples than processes": ["train.batch_size=1", "train.sampler=round_robin"],
    "separate": ["method=separate", MIXED, "train.lr=0.001"],
    "gates": [GATES, MIXED],
    "pcgrad": ["train.conflict=pcgrad", MIXED, "method=full", "train.lr=0.001", "train.accumulate=2"],
    "mt_uncertainty": ["train.sampler=mt_uncertainty", "train.accumulate=2"],
    "learned weights": ["train.task_weights=learned", MIXED],
    "a task that stops": ["train.stop={patience: 1}", "train.evaluate_every=3"],
    "bert_adam, drift": ["train.optimizer=bert_adam", "train.lr=0.001", "train.absent=drift"],
    "sharded": [
        *("method=full", "train.lr=0.001", "train.parallel=fsdp", MIXED),
        *("train.accumulate=2", "train.clip_by=tensor"),
    ],
    "sharded, frozen": ["train.parallel=fsdp", "train.sampler=mt_uncertainty"],
}
"""Further arguments. Dropout is 0, for every process draws its own."""

KEPT = (
    *("one task a batch", "task_mean, mixed, in three parts", "fewer examples than processes", "pcgrad"),
    *("a task that stops", "sharded"),
)
"""What `make test` keeps: all ways to divide a step, and what processes must decide alike."""


def without_dropout(folder: Path) -> str:
    """A run file of which nothing is dropped."""
    run = write_run(folder, steps=11, evaluate_every=5, checkpoint_every=7, log_every=1)
    config = folder / "encoder" / "config.json"
    said = json.loads(config.read_text())
    config.write_text(json.dumps({**said, **{k: 0.0 for k in said if "dropout" in k}}))
    return str(run)


def together(calls: list[list[str]], cache: Path, world: int = 2) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        context.Process(target=child.train_together, args=(calls, rank, world, port, str(cache)))
        for rank in range(world)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(240)
        if process.exitcode is None:
            for other in ranks:
                other.kill()
    assert [p.exitcode for p in ranks] == [0] * world, Path(f"{cache}.log").read_text()


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """The folder of the runs that are tested: NAME-1 by one process, NAME-2 by two."""
    tests = [item for item in request.session.items if item.path == request.path]
    names = {"one task a batch"} | {params_of(item)["name"] for item in tests if "name" in params_of(item)}
    folder = tmp_path_factory.mktemp("processes")
    run = without_dropout(folder)
    for world in (1, 2):
        calls = [
            [run, "heads.dropout=0", *more, "--out", str(folder / f"{name}-{world}")]
            for name, more in CASES.items()
            if name in names
        ]
        together(calls, folder / "cache", world)
    return folder


def losses(run: Path) -> dict[int, dict[str, float]]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["event"] == "step"}


def weights(run: Path) -> dict[str, torch.Tensor]:
    """All of a bundle but what is added to keys: it moves every score of a query alike, and softmax takes no
    notice. Its gradient is rounding, of which Adam makes steps of the learning rate.
    """
    files = sorted((run / "bundle").rglob("*.safetensors"))
    found = {f"{f.name}/{k}": v for f in files for k, v in load_file(f).items()}
    return {k: v for k, v in found.items() if not re.search(r"key\.bias$|/key\.0\.[DE]$", k)}


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(CASES, KEPT))
def test_two_processes_are_one(runs, name):
    """Sums of float32 in another order: losses to 1e-6, weights to 1e-5; learning rates are 1e-3 or 1e-2."""
    one, two = runs / f"{name}-1", runs / f"{name}-2"
    curve = losses(one)
    assert len(curve) >= 6
    assert losses(two).keys() == curve.keys()
    for step, expected in curve.items():
        assert losses(two)[step] == pytest.approx(expected, rel=1e-6, abs=1e-6), step
    mine, others = weights(one), weights(two)
    assert mine.keys() == others.keys()
    for key, tensor in mine.items():
        torch.testing.assert_close(others[key], tensor, rtol=0, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")
    told = [json.loads((run / "metrics.json").read_text()) for run in (one, two)]
    assert told[1]["average"] == pytest.approx(told[0]["average"], abs=1e-3)
    assert told[1].get("stops") == told[0].get("stops")
    assert ("stops" in told[0]) == ("train.stop" in str(CASES[name]))


@pytest.mark.parametrize("name", ["task_mean, mixed, in three parts", "sharded"])
def test_the_number_of_processes_may_change(runs, name, tmp_path):
    """Begun by two, ended by one; said in the log."""
    begun = tmp_path / "run"
    shutil.copytree(runs / f"{name}-2", begun)
    (begun / "metrics.json").unlink()
    shutil.rmtree(begun / "bundle")
    call = [str(runs / "run.yaml"), "heads.dropout=0", *CASES[name], "--out", str(begun), "--resume"]
    together([call], runs / "cache", 1)
    said = [json.loads(line) for line in (begun / "log.jsonl").read_text().splitlines()]
    (resumed,) = [line for line in said if line["event"] == "resume"]
    assert (resumed["before"], resumed["processes"], resumed["step"]) == (2, 1, 7)
    assert "processes 2 then, 1 now" in Path(f"{runs / 'cache'}.log").read_text()
    expected = weights(runs / f"{name}-1")
    for key, tensor in weights(begun).items():
        torch.testing.assert_close(tensor, expected[key], rtol=0, atol=1e-5)


def test_the_first_process_alone_writes(runs):
    """A line an event, and no file that another process left."""
    run = runs / "one task a batch-2"
    events = [json.loads(line)["event"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert events.count("start") == events.count("end") == 1
    assert events.count("step") == 11
    assert sorted(p.name for p in run.iterdir()) == [
        "bundle",
        "checkpoints",
        "log.jsonl",
        "metrics.json",
        "run.yaml",
    ]
