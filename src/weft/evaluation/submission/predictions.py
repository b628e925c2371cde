"""A model's answers for the test sets of a benchmark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.errors import WeftError, did_you_mean
from weft.evaluation.submission.form import Form, LabelForm, Predicted

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.evaluation.submission.benchmark import Benchmark
    from weft.model.model import Model
    from weft.tasks.task import Task


@dataclass(frozen=True)
class FoundSets:
    """The test sets of a benchmark that there are.

    Attributes:
        splits: their examples, by the forms' keys.
        why: why there is none, by the keys of the others.
    """

    splits: Mapping[str, Split]
    why: Mapping[str, str]


def find_test_sets(benchmark: Benchmark, tasks: Mapping[str, Task], fill: Collection[str] = ()) -> FoundSets:
    """Load the test sets, before a model is: a wrong row is told in a second. Tasks are known by their names.

    Args:
        benchmark: whose.
        tasks: those whose data is known, by name.
        fill: keys that are asked to be filled.
    """
    from weft.data.splits.split import load_split

    known = [form.key for form in benchmark.forms]
    for key in fill:
        if key not in known:
            raise WeftError(
                f"--fill {key}: {benchmark.title} has no such answers; {did_you_mean(key, known)}"
            )
    splits, why = {}, {}
    for form in benchmark.forms:
        task = tasks.get(form.task)
        if form.key in fill:
            why[form.key] = "asked for by --fill"
        elif task is None:
            why[form.key] = f"there is no task {form.task!r}"
        elif (own := _test_alone(task, form.set)) is None:
            told = f"task {form.task!r} has no test file"
            why[form.key] = told if form.set is None else f"{told} under also: {form.set}"
        else:
            split = load_split(own, "test")
            form.check_count(len(split), f"examples in {split.source}")
            splits[form.key] = split
    return FoundSets(splits, why)


def predictions_of(
    model: Model, benchmark: Benchmark, sets: FoundSets
) -> tuple[dict[str, Predicted], dict[str, str]]:
    """The model's answers for the test sets, and why there are none for the others, by the forms' keys."""
    answers, why = {}, dict(sets.why)
    names = [task.name for task in model.tasks]
    for form in benchmark.forms:
        if form.key not in sets.splits:
            continue
        if form.task not in names:
            why[form.key] = f"the model has no task {form.task!r}"
            continue
        answers[form.key] = _answers(model, form, sets.splits[form.key])
    return answers, why


def _test_alone(task: Task, name: str | None) -> Task | None:
    """The task with a test set alone: its own, or a further one; None without. Nothing is halved or cut."""
    if name is not None:
        file = task.also.get(name, {}).get("test")
    else:
        file = task.files.get("test")
        if file is None and task.hub and not task.files:
            return task
    if file is None:
        return None
    return replace(task, files={"test": file}, also={}, halves=False, cut=None, fraction=1.0)


def _answers(model: Model, form: Form, split: Split) -> Predicted:
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation.evaluate import decoded

    task = model.tasks[model.task_id(form.task)]
    theirs = split.task
    if (theirs.kind, theirs.labels, theirs.size) != (task.kind, task.labels, task.size):
        raise WeftError(
            f"task {task.name!r} is another one where its data is: {theirs.head} {list(theirs.labels)}; the "
            f"model has {task.head} {list(task.labels)}"
        )
    order = label_order(form, task)
    found = decoded(model, form.task, tokenize(split, model.tokenizer, model.max_length))
    if order is not None:
        found = [order[int(answer)] for answer in found]
    return Predicted(found, split.ids)


def label_order(form: Form, task: Task) -> list[int] | None:
    """The benchmark's id of each of a task's labels, which may be in another order; None without labels."""
    if not isinstance(form, LabelForm) or not task.labels:
        return None
    try:
        order = [form.label_id(name) for name in task.labels]
    except ValueError:
        order = []
    if sorted(order) != list(range(len(form.names))):
        known = ", ".join(name.split("|")[0] for name in form.names)
        raise WeftError(
            f"task {task.name!r}: its labels are {', '.join(task.labels)}; {form.file} takes {known}, so "
            f"named, in any order; leave it out with: --fill {form.key}"
        )
    return order
