"""Train one model on GLUE's eight larger tasks, and report its scores and where the time was spent.

`benchmarks.experiments.glue8` calls this. It measures what `weft compare` does not: the seconds of compiling,
evaluation and checkpoints, and different engines, on which the identity of a run does not depend.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

import weft
from weft.acceleration.cuda_graph import Capturer
from weft.data.splits.split import Split
from weft.data.splits.subset import rows_of
from weft.data.splits.task_rows import rows_of_task
from weft.data.tokens.tokens import tokenize
from weft.encoder.load import load_tokenizer
from weft.evaluation.scores import Scores, main_score
from weft.model.ownership import owned
from weft.training.run.loop import Loop
from weft.training.run.validation import Validation

TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
SCORES = ("matthews", "pearson", "accuracy")
"""The score of a task is the first of these that is one of its metrics."""

WATCHED: dict[str, tuple[type, str]] = {
    "compiling": (Capturer, "__call__"),  # the first run of each shape compiles, and is captured
    "evaluation": (Validation, "scores"),
    "checkpoints": (Loop, "_checkpoint"),
}
"""The methods that are timed within a run."""


@dataclass(frozen=True)
class Setup:
    """The settings that all runs of a call share.

    Attributes:
        root: the folder with the files of GLUE.
        encoder: passed to `weft.load_encoder`.
        steps: the number of steps of each run.
        batch_size: examples a step.
        max_length: tokens of a row.
        limit_rows: the rows of a split that are used at the most, to try things out; None: all.
        work: where runs are written while they last.
    """

    root: str
    encoder: str = "minilm"
    steps: int = 12_000
    batch_size: int = 32
    max_length: int = 128
    limit_rows: int | None = None
    work: str = str(Path(tempfile.gettempdir()) / "weft-runs")


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        row: the name of its row in the table; runs that differ only in rate or seed share it.
        method: passed to `weft.Model`.
        lr: the peak learning rate; None: the method's default.
        sampler: how steps choose tasks.
        engine: how steps are run.
        seed: of everything.
        more: further settings of `weft.Training`.
        keep: whether the run writes checkpoints and a bundle, as a user's run does.
    """

    row: str
    method: Any = "full"
    lr: float | None = None
    sampler: str = "annealed"
    engine: str = "auto"
    seed: int = 1
    more: dict[str, Any] = field(default_factory=dict)
    keep: bool = False

    @property
    def key(self) -> str:
        """A unique name that can be a file name."""
        rate = "" if self.lr is None else f"-{self.lr:.1e}"
        name = f"{self.row}-{self.sampler}{rate}-{self.engine}-{self.seed}"
        return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)


@dataclass(frozen=True)
class Data:
    """The rows of all tasks.

    Attributes:
        tasks: the T tasks, each scored by one metric.
        splits: (task, `train` or `validation`) → rows, as `weft.train` takes them.
    """

    tasks: list[weft.Task]
    splits: dict[tuple[str, str], Split]


@cache
def data_of(setup: Setup) -> Data:
    """Read and tokenize everything, once for a process."""
    tasks = [
        replace(task, metrics=(next(m for m in SCORES if m in task.metrics),))
        for task in weft.load_suite("glue", setup.root, TASKS)
    ]
    tokenizer = load_tokenizer(setup.encoder)
    if tokenizer is None:
        raise weft.WeftError(
            f"encoder {setup.encoder!r} has no tokenizer; give a folder, or: --encoder minilm"
        )
    splits: dict[tuple[str, str], Split] = {}
    for task in tasks:
        for key, rows in rows_of_task(task).splits.items():
            if setup.limit_rows is not None and len(rows) > setup.limit_rows:
                rows = rows_of(rows, range(setup.limit_rows))
            tokenize(rows, tokenizer, setup.max_length)  # writes it to the cache
            splits[key] = rows
    return Data(tasks, splits)


def one_run(case: Case, setup: Setup) -> dict[str, Any]:
    """Train and score one case; the result is written as one line of JSON.

    Args:
        case: the run.
        setup: the settings that all runs share.
    """
    began = time.perf_counter()
    data = data_of(setup)
    held = held_before()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = weft.Model(
        setup.encoder,
        data.tasks,
        case.method,
        max_length=setup.max_length,
        seed=case.seed,
        head_start="random",
    ).to(device)
    training = weft.Training(
        **{
            "steps": setup.steps,
            "batch_size": setup.batch_size,
            "max_length": setup.max_length,
            "sampler": case.sampler,
            "lr": case.lr,
            "seed": case.seed,
            "log_every": max(1, setup.steps // 20),
            **({} if case.engine == "auto" else {"engine": case.engine}),
            **case.more,
        }
    )
    folder = Path(setup.work) / case.key
    shutil.rmtree(folder, ignore_errors=True)
    with stopwatches(WATCHED) as parts, kept_loop() as loops:
        _wait(device)
        start = time.perf_counter()
        run = weft.train(model, training, folder, splits=dict(data.splits), with_bundle=case.keep)
        _wait(device)
        seconds = time.perf_counter() - start
    if not case.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        **asdict(case),
        "metrics": {task.name: task.metrics[0] for task in data.tasks},
        "lr": case.lr or model.method.default_lr,
        "steps": training.steps,
        "batch_size": setup.batch_size,
        "max_length": setup.max_length,
        "parameters": parameters(model),
        "scores": scores_of(run.metrics),
        "seconds": {
            "train": round(seconds, 2),
            **{part: round(spent, 2) for part, spent in parts.items()},
            "all": round(time.perf_counter() - began, 2),
        },
        "engine_used": engine_facts(loops[0]),
        "memory": memory(device, held),
        "machine": machine(device),
    }


def scores_of(scores: Scores) -> dict[str, Any]:
    """The score and the number of examples of each task; a score that is not a number becomes None."""
    tasks = {name: main_score(metrics) for name, metrics in scores["tasks"].items()}
    return {
        "tasks": {name: round(score, 5) if math.isfinite(score) else None for name, score in tasks.items()},
        "rows": dict(scores["rows"]),
    }


def average(scores: dict[str, Any], without: tuple[str, ...] = ()) -> float:
    """The mean over tasks, in percent; a score that is not a number counts as 0."""
    found = [score or 0.0 for name, score in scores["tasks"].items() if name not in without]
    return 100 * sum(found) / len(found)


def parameters(model: weft.Model) -> dict[str, Any]:
    """The counts of trained and of held parameters, without heads."""
    ledger = model.ledger()
    trained = sum(item.numel for item in owned(model) if item.trains and item.part != "heads")
    return {
        "encoder": ledger["encoder"],
        "trained": trained,
        "total_ratio": round(ledger["total_ratio"], 4),
        "heads": sum(ledger["heads"].values()),
    }


def engine_facts(loop: Loop) -> dict[str, Any]:
    """The engine that was used, the shapes of its batches, and the seconds spent waiting for batches."""
    shapes = loop.driver.shapes
    return {
        "name": loop.driver.name,
        "why": loop.driver.note,
        "waited": round(loop.driver.waited, 2),
        "lengths": None if shapes is None else list(shapes.lengths),
        "waste": None if shapes is None else {k: round(v, 4) for k, v in shapes.waste._asdict().items()},
    }


def held_before() -> int:
    """The bytes on the GPU that belong to earlier runs of this process."""
    if not torch.cuda.is_available():
        return 0
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def memory(device: str, before: int) -> dict[str, int] | None:
    """The peak GPU memory of the process's tensors, in bytes, and their memory before the run.

    Args:
        device: where it ran.
        before: the result of `held_before`.
    """
    return None if device == "cpu" else {"allocated": torch.cuda.max_memory_allocated(), "before": before}


def machine(device: str) -> dict[str, Any]:
    """The machine that it ran on."""
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {"device": name, "cores": os.cpu_count(), "torch": torch.__version__, "weft": weft.__version__}


@contextmanager
def kept_loop() -> Iterator[list[Loop]]:
    """Collect the training loops that run inside the context."""
    loops: list[Loop] = []
    real = Loop.run

    def run(loop: Loop, *args: Any, **kwargs: Any) -> Scores:
        loops.append(loop)
        return real(loop, *args, **kwargs)

    Loop.run = run  # type: ignore[method-assign]
    try:
        yield loops
    finally:
        Loop.run = real  # type: ignore[method-assign]


@contextmanager
def stopwatches(watched: dict[str, tuple[type, str]]) -> Iterator[dict[str, float]]:
    """Time every call of some methods.

    Args:
        watched: a name for the time → (class, method).
    """
    spent = dict.fromkeys(watched, 0.0)
    real = {name: getattr(owner, method) for name, (owner, method) in watched.items()}

    def timed(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            _wait("cuda" if torch.cuda.is_initialized() else "cpu")  # earlier work must not be counted
            start = time.perf_counter()
            try:
                return real[name](*args, **kwargs)
            finally:
                spent[name] += time.perf_counter() - start

        return call

    for name, (owner, method) in watched.items():
        setattr(owner, method, timed(name))
    try:
        yield spent
    finally:
        for name, (owner, method) in watched.items():
            setattr(owner, method, real[name])


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
