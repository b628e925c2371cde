"""The class of transformers that answers a kind of task, and its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.interop.hf.forms import CHOICE, QUESTION, SEQUENCE, TOKEN
from weft.interop.refusals import CannotExport

if TYPE_CHECKING:
    from weft.tasks.task import Task


@dataclass(frozen=True)
class Answering:
    """How transformers answers a kind.

    Attributes:
        auto_class: the class that loads it.
        problem: `problem_type` of the configuration, which a pipeline and a loss read; None: not read.
        pipeline: the pipeline that answers it; None if there is none.
    """

    auto_class: str
    problem: str | None = None
    pipeline: str | None = None


REGRESSION = "regression"

ANSWERING = {
    "classify": Answering(SEQUENCE, "single_label_classification", "text-classification"),
    "multilabel": Answering(SEQUENCE, "multi_label_classification", "text-classification"),
    "regress": Answering(SEQUENCE, REGRESSION, "text-classification"),
    "rank": Answering(SEQUENCE, REGRESSION, "text-classification"),
    "tag": Answering(TOKEN, None, "token-classification"),
    "span": Answering(QUESTION),
    "choose": Answering(CHOICE),
}
"""By kind. Kinds that are missing have heads that no class of transformers has."""

_MISSING = {
    "similarity": "similarity tasks encode their two texts separately, and no class of transformers compares "
    "them; weft export --to sentence-transformers writes such a task",
    "marked": "its head reads the marked words of a text, and no class of transformers has an input for them",
}


RAW = "torch.nn.modules.linear.Identity"
"""What sentence-transformers' `CrossEncoder` applies to a single output; by default a sigmoid."""


def answering(task: Task) -> Answering:
    """Return how transformers answers a task; refuse kinds that it cannot answer."""
    if task.kind not in ANSWERING:
        unknown = f"no class of transformers answers tasks of kind {task.kind!r}"
        raise CannotExport(_MISSING.get(task.kind, unknown))
    return ANSWERING[task.kind]


def output_names(task: Task) -> list[str]:
    """The names of a task's outputs: its labels, or what its numbers are."""
    size = task.size or 1
    if task.labels:
        return list(task.labels)
    if task.kind == "span":
        return ["start", "end"]
    if size == 1:  # the label's column has a name such as "label"
        return [task.name]
    if len(task.label_columns) == size:
        return list(task.label_columns)
    return [f"score_{number}" for number in range(size)]


def configure(config: Any, task: Task) -> None:
    """Write the task's outputs into a configuration of transformers, in place.

    Args:
        config: the configuration of the merged encoder.
        task: the task.
    """
    kind = answering(task)
    if kind.auto_class == CHOICE:  # one score per choice, whose number each example has
        return
    names = output_names(task)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    if kind.problem is not None:
        config.problem_type = kind.problem
    if kind.problem == REGRESSION and len(names) == 1:
        config.sentence_transformers = {"activation_fn": RAW}
