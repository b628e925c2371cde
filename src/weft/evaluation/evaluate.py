"""Evaluating a model on the validation or test rows of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.evaluated import EvaluatedSet
from weft.evaluation.rows.collect import collect_rows
from weft.evaluation.scores import Scores, main_score
from weft.inference.examples import Examples
from weft.inference.precision import PassContext, precision_context
from weft.inference.runner import answers
from weft.tasks.kinds import KINDS
from weft.tasks.task import ALSO, task_of

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.evaluation.rows.run_rows import SetRows
    from weft.model.model import Model
    from weft.tasks.task import Task
    from weft.utils.processes import Processes


def evaluate(
    model: Model,
    data: Mapping[str, Tokens],
    rows: Mapping[str, Sequence[int]] | None = None,
    processes: Processes | None = None,
    precision: PassContext | str | None = None,
    capture: Literal["auto", "always"] = "always",
    collect: dict[str, SetRows] | None = None,
    watch: Callable[[EvaluatedSet], object] | None = None,
) -> Scores:
    """Evaluate on labelled examples. The model is put into eval mode and left there.

    Args:
        model: the model.
        data: the tokenized split of each task, with labels; a further set is under `TASK:SET`, after its
            task.
        rows: the examples of each split to evaluate; by default all.
        processes: the processes that share the work; each gets the scores.
        precision: `float32` or `bf16`, or what makes the context of each pass; by default float32, or the
            precision passed to `Model.capture`.
        capture: which passes run as CUDA graphs on a GPU; see `weft.inference.runner.answers`.
        collect: a dictionary that receives the row statistics of each evaluated set, under its name in
            `data`; `RunRows(collect)` is what `weft compare` stores of a run. They are made from the answers
            that are judged, without a second pass. None: none are made.
        watch: called with the outputs and answers of each evaluated set, one after the other; reports on
            errors are made from them.
    """
    chosen: dict[str, Sequence[int]] = {
        name: range(len(tokens)) if rows is None else rows[name] for name, tokens in data.items()
    }
    # as columns: a tuple per example would need more memory than its tokens
    listed = Examples.of_sets(
        (model.task_id(task_of(name)), data[name], which) for name, which in chosen.items()
    )
    context = precision_context(model, precision) if isinstance(precision, str) else precision
    logits = answers(model, listed, processes=processes, precision=context, capture=capture)
    metrics: dict[str, dict[str, float]] = {}
    position = 0
    for name, which in chosen.items():
        set_logits = logits[position : position + len(which)]
        position += len(which)
        task, _, further = name.partition(ALSO)
        keep = None if collect is None else partial(collect.__setitem__, name)
        judged_task = model.tasks[model.task_id(task)]
        scores = judged(judged_task, set_logits, data[name], which, keep, name, watch)
        suffix = f"_{further}" if further else ""
        metrics.setdefault(task, {}).update({f"{metric}{suffix}": value for metric, value in scores.items()})
    return Scores(
        tasks=metrics,
        rows={name: len(which) for name, which in chosen.items()},
        of={name: len(tokens) for name, tokens in data.items()},
        average=float(np.mean([main_score(m) for m in metrics.values()])),
    )


def judged(
    task: Task,
    logits: Sequence[NDArray[np.float32]],
    tokens: Tokens,
    which: Sequence[int],
    collect: Callable[[SetRows], object] | None = None,
    name: str = "",
    watch: Callable[[EvaluatedSet], object] | None = None,
) -> dict[str, float]:
    """Compute the metrics of a task.

    Args:
        task: the task.
        logits: the logits of each example.
        tokens: the task's examples.
        which: the indices of the examples that the logits belong to.
        collect: called with the row statistics of these examples.
        name: `TASK` or `TASK:SET`, for `watch`.
        watch: called with the outputs and answers.
    """
    kind = KINDS[task.kind]()
    examples = tokens.examples(which)
    labels: Any = tokens.labels
    groups = tokens.split.groups
    answers = (
        kind.gold([labels[i] for i in which], task, examples),
        kind.decode(logits, task, examples),
        None if groups is None else [groups[i] for i in which],
    )
    scores = kind.score(task.metrics, *answers)
    if collect is not None:
        collect(collect_rows(kind, scores, *answers))
    if watch is not None:
        watch(EvaluatedSet(name, task, tokens, which, logits, *answers[:2], scores))
    return scores


def decoded(model: Model, name: str, tokens: Tokens) -> list[Any]:
    """Return the model's answers to all examples of a task as its metrics take them: ids, numbers, texts."""
    number = model.task_id(name)
    task = model.tasks[number]
    logits = answers(model, Examples.of_sets([(number, tokens, range(len(tokens)))]))[:]
    return list(KINDS[task.kind]().decode(logits, task, tokens.examples(range(len(tokens)))))


def fixed_examples(tokens: Tokens, limit: int | None, seed: int, name: str) -> list[int]:
    """Select about `limit` examples of a split to evaluate, in whole groups.

    A question with only some of its answers could not be scored.

    Args:
        tokens: the split.
        limit: about how many to select; None: all.
        seed: the seed of the selection.
        name: the task's name.
    """
    groups = tokens.split.groups
    if groups is None or limit is None or len(tokens) <= limit:
        return fixed_rows(len(tokens), limit, seed, name)
    members: dict[Any, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    every = list(members.values())
    chosen: list[int] = []
    # as many groups of the mean size as hold the limit, at least one
    count = max(1, round(limit * len(every) / len(tokens)))
    for number in fixed_rows(len(every), count, seed, name):
        chosen += every[number]
    return sorted(chosen)


def fixed_rows(size: int, limit: int | None, seed: int, name: str) -> list[int]:
    """Select the rows of a split that are evaluated during training: always the same, spread over the split.

    Args:
        size: the number of rows.
        limit: how many to select; None: all.
        seed: the seed of the selection.
        name: the task's name.
    """
    from weft.utils.counter_rng import draw_key
    from weft.utils.permutation import permute

    if limit is None or size <= limit:
        return list(range(size))
    places = permute(np.arange(limit), size, draw_key(seed, "evaluate", name))
    return sorted(int(p) for p in places)
