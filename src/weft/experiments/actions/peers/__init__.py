"""Peers: the same tasks by what people would use instead of weft, for the same table.

```yaml
variants:
  weft: {method: lora}
  PEFT: {peer: {use: trainer, lora: 8}}
  full fine-tuning: {peer: {use: trainer, lr: 3.0e-5}}
  scikit-learn: {peer: {use: sklearn}}
```

A peer trains one model per task, from the cell's tasks, encoder, `max_length`, `batch_size` and seed, and
with the cell's `train.lr` if that is set, so that `tune` can choose it. Its logits of the reported rows, and
of the validation rows that values are chosen by, are judged by weft's metrics, as weft's own are. A peer is
one file with one class and one line here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from weft.errors import WeftError, did_you_mean
from weft.experiments.actions import Outcome, Reporter
from weft.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from weft.config.run_file import RunFile
    from weft.data.splits.split import Split
    from weft.experiments.job import Job
    from weft.tasks.task import Task

KINDS = ("classify", "regress")
"""The kinds of tasks that peers can train."""
VALIDATION = "validation"
"""The split whose rows choose tuned values."""


class Peer(Protocol):
    """Trains one task after another.

    Attributes:
        has_rate: whether it has a learning rate, the option `lr`.
        trained: the number of parameters that train, without heads, over all tasks so far.
        encoder: the number of parameters of the encoder.
        steps: the number of optimizer steps so far.
    """

    has_rate: ClassVar[bool]
    trained: int
    encoder: int
    steps: int

    def logits(self, task: Task, train: Split, tests: Sequence[Split]) -> list[list[NDArray[np.float32]]]:
        """Train a task, and return the logits of every example of each split, as its kind decodes them.

        Args:
            task: the task.
            train: its training rows.
            tests: the splits to predict.
        """
        ...


PEERS: Registry[Any] = Registry(
    "peer",
    {
        "sklearn": "weft.experiments.actions.peers.sklearn_peer:SklearnPeer",
        "trainer": "weft.experiments.actions.peers.trainer_peer:TrainerPeer",
    },
)


def peer(job: Job, report: Reporter) -> Outcome:
    """Train all tasks of a cell by a peer, and evaluate them on the reported rows.

    If values are chosen by this cell, also on the validation rows: a choice by the reported ones flatters.
    """
    import base64

    from weft.data.splits.task_rows import rows_of_task
    from weft.encoder.load import load_tokenizer
    from weft.evaluation.evaluate import judged
    from weft.evaluation.rows.pack import pack
    from weft.evaluation.rows.run_rows import RunRows, SetRows
    from weft.experiments.records import without_paths
    from weft.tasks.task import ALSO

    run_file = job.run_file()
    made = make_peer(job.action["peer"], run_file, job.device, job.raw.get("train", {}).get("lr"))
    tokenizer = load_tokenizer(run_file.encoder)
    wanted = tuple(dict.fromkeys((job.report, VALIDATION) if job.chosen_by else (job.report,)))
    metrics: dict[str, dict[str, dict[str, float]]] = {name: {} for name in wanted}
    rows: dict[str, int] = {}
    sets: dict[str, SetRows] = {}
    began = time.perf_counter()
    for number, task in enumerate(run_file.tasks):
        report.step(number, len(run_file.tasks), None)
        train = rows_of_task(task, ("train",)).splits[task.name, "train"]
        tests = rows_of_task(task, wanted).splits
        answers = made.logits(task, train, list(tests.values()))
        for ((name, split_name), split), logits in zip(tests.items(), answers, strict=True):
            further = name.partition(ALSO)[2]
            tokens = tokenized(split, tokenizer, run_file)
            keep = partial(sets.__setitem__, name) if split_name == job.report else None
            scores = judged(task, logits, tokens, range(len(split)), keep)
            suffix = f"_{further}" if further else ""
            metrics[split_name].setdefault(task.name, {}).update(
                {f"{key}{suffix}": value for key, value in scores.items()}
            )
            if split_name == job.report:
                rows[name] = len(split)
    return Outcome(
        metrics=metrics[job.report],
        chosen_by=metrics[VALIDATION] if job.chosen_by else None,
        rows=rows,
        settings={**without_paths(run_file.resolved), "peer": job.action["peer"]},
        statistics=base64.b64encode(pack(RunRows(sets))).decode(),
        parameters={"encoder": made.encoder, "trained": made.trained},
        seconds={"train": round(time.perf_counter() - began, 2)},
        steps=made.steps,
    )


def make_peer(settings: Any, run_file: RunFile, device: str | None, lr: float | None = None) -> Peer:
    """Build the peer that an action names, and check that it can train the tasks.

    Args:
        settings: `{use: NAME, …}`, or the name alone.
        run_file: the cell's run file.
        device: cpu, cuda, …; None: a GPU if there is one.
        lr: `train.lr` of the cell, if it is set; the peer's own `lr` comes before it.
    """
    options = {"use": settings} if isinstance(settings, str) else dict(settings)
    name = options.pop("use", None)
    if name not in PEERS:
        raise WeftError(f"peer: use: {name!r} does not exist; {did_you_mean(str(name), PEERS)}")
    for task in run_file.tasks:
        if task.kind not in KINDS:
            raise WeftError(
                f"peer {name!r} trains tasks of the kinds {', '.join(KINDS)}; {task.name!r} is {task.kind}"
            )
    kind = PEERS[name]
    if lr is not None and kind.has_rate:
        options.setdefault("lr", lr)
    made: Peer = kind(run_file, device, **options)
    return made


def scale_of(task: Task) -> tuple[float, float]:
    """The range that the labels of a regression are scaled from, so that they lie between 0 and 1."""
    from weft.tasks.checks import RAW

    return task.range if task.range is not None and task.targets != RAW else (0.0, 1.0)


def tokenized(split: Split, tokenizer: Any, run_file: RunFile) -> Any:
    """The tokens of a split, which hold the labels that metrics compare."""
    from weft.data.tokens.tokens import tokenize

    return tokenize(split, tokenizer, run_file.training.max_length)
