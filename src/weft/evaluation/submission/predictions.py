"""Computing a model's answers for the test sets of a benchmark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.errors import WeftError, did_you_mean
from weft.evaluation.submission.form import Form, LabelForm, Predicted
from weft.suites.overlaps import twin_name

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.evaluation.submission.benchmark import Benchmark
    from weft.model.model import Model
    from weft.tasks.task import Task


@dataclass(frozen=True)
class FoundSets:
    """The available test sets of a benchmark.

    Attributes:
        splits: their examples, by the keys of the forms.
        why: for the other keys, the reason why there is no test set.
    """

    splits: Mapping[str, Split]
    why: Mapping[str, str]


def find_test_sets(benchmark: Benchmark, tasks: Mapping[str, Task], fill: Collection[str] = ()) -> FoundSets:
    """Load the test sets. This comes before the model is loaded, so that a wrong row is reported at once.

    Args:
        benchmark: the benchmark.
        tasks: the tasks whose data is known, by name.
        fill: the keys whose files are requested to be filled.
    """
    from weft.data.splits.split import load_split

    keys = [form.key for form in benchmark.forms]
    for key in fill:
        if key not in keys:
            raise WeftError(f"--fill {key}: {benchmark.title} has no such answers; {did_you_mean(key, keys)}")
    splits, why = {}, {}
    for form in benchmark.forms:
        task = tasks.get(_name(benchmark, form, tasks))
        if form.key in fill:
            why[form.key] = "requested by --fill"
        elif task is None:
            why[form.key] = f"there is no task {form.task!r}"
        elif (test_task := _test_alone(task, form.set)) is None:
            reason = f"task {form.task!r} has no test file"
            why[form.key] = reason if form.set is None else f"{reason} under also: {form.set}"
        else:
            split = load_split(test_task, "test")
            form.check_count(len(split), f"examples in {split.source}")
            splits[form.key] = split
    return FoundSets(splits, why)


def predictions_of(
    model: Model, benchmark: Benchmark, sets: FoundSets
) -> tuple[dict[str, Predicted], dict[str, str]]:
    """Return the model's answers by the keys of the forms, and for the other keys the reason."""
    answers, why = {}, dict(sets.why)
    names = [task.name for task in model.tasks]
    for form in benchmark.forms:
        if form.key not in sets.splits:
            continue
        name = _name(benchmark, form, names)
        if name not in names:
            why[form.key] = f"the model has no task {form.task!r}"
            continue
        answers[form.key] = _answers(model, name, form, sets.splits[form.key])
    return answers, why


def _name(benchmark: Benchmark, form: Form, names: Collection[str]) -> str:
    """The name of a form's task in a run that also has a task of that name from a different suite."""
    apart = twin_name(benchmark.name, form.task)
    return apart if apart in names else form.task


def _test_alone(task: Task, name: str | None) -> Task | None:
    """Return the task with only a test set, which is not halved or cut; None if it has no test set."""
    if name is not None:
        file = task.also.get(name, {}).get("test")
    else:
        file = task.files.get("test")
        if file is None and task.hub and not task.files:
            return task
    if file is None:
        return None
    return replace(task, files={"test": file}, also={}, halves=False, cut=None, fraction=1.0)


def _answers(model: Model, name: str, form: Form, split: Split) -> Predicted:
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation.evaluate import decoded

    task = model.tasks[model.task_id(name)]
    data_task = split.task
    if (data_task.kind, data_task.labels, data_task.size) != (task.kind, task.labels, task.size):
        raise WeftError(
            f"task {task.name!r} of the data does not match the model: kind, labels or size differ; found "
            f"{data_task.head} {list(data_task.labels)}, expected {task.head} {list(task.labels)}; pass "
            "the run file that the model was trained with: --tasks RUN.yaml"
        )
    order = label_order(form, task)
    answers = decoded(model, name, tokenize(split, model.tokenizer, model.max_length))
    if order is not None:
        answers = [order[int(answer)] for answer in answers]
    return Predicted(answers, split.ids)


def label_order(form: Form, task: Task) -> list[int] | None:
    """Return the benchmark's id of each label of a task; None without labels. The order may differ."""
    if not isinstance(form, LabelForm) or not task.labels:
        return None
    try:
        order = [form.label_id(name) for name in task.labels]
    except ValueError:
        order = []
    if sorted(order) != list(range(len(form.names))):
        expected = ", ".join(name.split("|")[0] for name in form.names)
        raise WeftError(
            f"task {task.name!r}: its labels are {', '.join(task.labels)}; {form.file} takes "
            f"{expected}, in any order; leave it out with: --fill {form.key}"
        )
    return order
