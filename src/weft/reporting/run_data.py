"""What a run's folder says: run.yaml, log.jsonl and metrics.json, read without torch.

A run that still trains, was stopped or has diverged has a log too, so only run.yaml must be there. Lines of
the log that are not in the form that a run writes are skipped, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.evaluation.scores import main_score
from weft.utils.safe_json import parse_json, read_json
from weft.utils.safe_yaml import YamlError, parse_yaml, read_text

LOG, SETTINGS, METRICS = "log.jsonl", "run.yaml", "metrics.json"
TEST_METRICS = "metrics.test.json"
ERRORS = ("errors.json", "errors.test.json")
"""The error reports that `weft evaluate --report` writes into a run's folder."""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training.

    Attributes:
        step: the number of steps done.
        tasks: the metrics of each task.
        facts: the whole line of the log.
    """

    step: int
    tasks: Mapping[str, Mapping[str, float]]
    facts: Mapping[str, Any] = field(repr=False)

    def score(self, task: str) -> float:
        """A task's score, the larger the better; nan if it was not evaluated."""
        metrics = self.tasks.get(task)
        return main_score(metrics) if metrics else math.nan


@dataclass(frozen=True)
class RunData:
    """What is known of a run.

    Attributes:
        folder: its folder.
        settings: run.yaml as values.
        text: run.yaml as text.
        events: the lines of the log by event, without `evaluation` and `chosen`.
        evaluations: the evaluations, by step.
        chosen: with MT-Uncertainty, the step and the number of the task of each example that it trained on.
        metrics: metrics.json; {} while the run has not ended.
        test: metrics.test.json; {} if the test split was not evaluated.
        skipped: how many lines of the log could not be read.
    """

    folder: Path
    settings: Mapping[str, Any]
    text: str
    events: Mapping[str, Sequence[Mapping[str, Any]]]
    evaluations: Sequence[Evaluation]
    chosen: Sequence[tuple[int, Sequence[int]]]
    metrics: Mapping[str, Any]
    test: Mapping[str, Any]
    skipped: int = 0

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name or str(self.folder)

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the run."""
        start = next(iter(self.events.get("start", ())), {})
        listed = start.get("tasks")
        if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
            return list(listed)
        known = self.evaluations[0].tasks if self.evaluations else self.metrics.get("tasks", {})
        return list(known)

    @property
    def train(self) -> Mapping[str, Any]:
        """The section `train` of run.yaml."""
        section = self.settings.get("train")
        return section if isinstance(section, dict) else {}

    def kept_step(self, task: str) -> int | None:
        """The step of the weights that were kept for a task; None: not known."""
        step = self.metrics.get("step")
        step = step.get(task) if isinstance(step, dict) else step
        return step if isinstance(step, int) and not isinstance(step, bool) else None

    def last(self, event: str) -> Mapping[str, Any]:
        """The last line of an event; {} if there is none."""
        lines = self.events.get(event, ())
        return lines[-1] if lines else {}


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / SETTINGS).is_file()


def read_run(folder: Path) -> RunData:
    """Read a run's folder.

    Args:
        folder: the folder, with run.yaml in it.
    """
    path = folder / SETTINGS
    if not path.is_file():
        raise WeftError(
            f"{folder} holds no run: {SETTINGS} is missing; expected the folder of a run, as made by: "
            f"weft train RUN.yaml --out {folder}"
        )
    text = read_text(path)
    try:
        settings = parse_yaml(text)
    except YamlError as wrong:
        raise WeftError(f"{path}: {wrong}") from None
    if not isinstance(settings, dict):
        raise WeftError(f"{path}: found {type(settings).__name__}; expected the sections of a run file")
    events, evaluations, chosen, skipped = _read_log(folder / LOG)
    return RunData(
        folder,
        settings,
        text,
        events,
        evaluations,
        chosen,
        _json(folder / METRICS),
        _json(folder / TEST_METRICS),
        skipped,
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return read_json(path, "a run writes it")
    except WeftError as wrong:
        raise WeftError(
            f"{wrong}; it is damaged: move it away, and the page is made without it: mv {path} {path}.damaged"
        ) from None


Log = tuple[dict[str, list[dict[str, Any]]], list[Evaluation], list[tuple[int, list[int]]], int]


def _read_log(path: Path) -> Log:
    events: dict[str, list[dict[str, Any]]] = {}
    evaluations: dict[int, Evaluation] = {}
    chosen: dict[int, list[int]] = {}
    skipped = 0
    for line in _lines(path):
        event = line.get("event") if line is not None else None
        if line is None or not isinstance(event, str):
            skipped += 1
        elif event == "evaluation":
            evaluation = evaluation_of(line)
            if evaluation is None:
                skipped += 1
            else:  # a resumed run may have evaluated a step twice
                evaluations[evaluation.step] = evaluation
        elif event == "chosen":
            step, tasks = line.get("step"), line.get("task")
            if isinstance(step, int) and isinstance(tasks, list) and all(type(t) is int for t in tasks):
                chosen[step] = tasks
            else:
                skipped += 1
        else:
            events.setdefault(event, []).append(line)
    ordered = [evaluations[step] for step in sorted(evaluations)]
    return events, ordered, sorted(chosen.items()), skipped


def _lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """The lines of the log; None for one that is no JSON object. The last one may be half a line."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                value = parse_json(line)
            except ValueError:
                if line.endswith(b"\n"):
                    yield None
                continue
            yield value if isinstance(value, dict) else None


def evaluation_of(line: Mapping[str, Any]) -> Evaluation | None:
    """An evaluation from its line of the log; None if it is not in the form that a run writes."""
    step, tasks = line.get("step"), line.get("tasks")
    if not isinstance(step, int) or not isinstance(tasks, dict):
        return None
    checked: dict[str, dict[str, float]] = {}
    for task, metrics in tasks.items():
        if not isinstance(metrics, dict):
            return None
        numbers = {name: number(value) for name, value in metrics.items()}
        if numbers:
            checked[task] = numbers
    return Evaluation(step, checked, line)


def number(value: object) -> float:
    """A number of a log; nan for anything else. Null stands for a number that was not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number of some hundred digits
        return math.nan


def numbers_of(value: object) -> dict[str, float]:
    """A mapping from names to numbers; {} for anything else."""
    return {str(name): number(x) for name, x in value.items()} if isinstance(value, dict) else {}
