"""Evaluating a model, a bundle or a run: what `weft.evaluate` and `weft evaluate` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, cast

from weft.config.model_data import Known, find_tasks, known_tasks, labelled_rows, tasks_with_data
from weft.errors import WeftError
from weft.evaluation.scores import Scores
from weft.utils.notes import teller

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.model.model import Model
    from weft.training.run.run import Run


class Evaluation(Scores):
    """What an evaluation found: `Scores`, and what they are of.

    Attributes:
        split: the split.
        baselines: each baseline's metrics by task, where they were requested; {} where it has none.
    """

    split: str
    baselines: NotRequired[dict[str, dict[str, dict[str, float]]]]


def evaluate(
    model: Model | Run | str | Path,
    tasks: Any = None,
    *,
    split: str = "validation",
    rows: int | None = None,
    seed: int = 1,
    precision: str = "float32",
    baselines: bool = False,
    encoder: Any = None,
    device: str | None = None,
    progress: bool = True,
) -> Evaluation:
    """Evaluate a model on labelled rows of its tasks. It returns what `weft evaluate --json` prints.

    Example:
        >>> scores = weft.evaluate("runs/first", split="validation")
        >>> scores["tasks"]["rte"], scores["average"]
        ({'accuracy': 0.71}, 0.71)
        >>> weft.evaluate("bundles/first", tasks="run.yaml", rows=500, precision="bf16")

    Args:
        model: a model, a finished run, or the folder of a run or bundle.
        tasks: where the data is: a run file or task file, a `Task`, what `weft.load_run` gives, or a list of
            these. By default the run's own run.yaml, or the files of the model's tasks.
        split: `validation` or `test`.
        rows: evaluate about this many examples per task, the same ones every time; None: all.
        seed: selects these examples.
        precision: `float32` or `bf16`, in which metrics differ slightly.
        baselines: evaluate a majority guess and a bag of words on the same examples, too.
        encoder: folder or hub id of the encoder, if it has moved; for a folder alone.
        device: cpu, cuda, …; by default a GPU if there is one, and for a model where it is.
        progress: show the tokenization and print notes, on standard error.

    Returns:
        `split`; `tasks`: the metrics of each task, its first one is its score; `rows` and `of`: how many
        examples were evaluated, and of how many; `average`: the mean of the scores; with `baselines` theirs.
    """
    from weft.data.splits.task_rows import rows_of_task

    if rows is not None and rows < 1:
        raise WeftError(f"rows must be at least 1; found {rows}")
    tell = teller(progress)
    source, known = _known(model, tasks)

    from weft.data.tokens.progress import tokenizing
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation.evaluate import evaluate as scores_of
    from weft.evaluation.evaluate import fixed_examples
    from weft.inference.precision import checked_precision

    checked_precision(precision)
    loaded = _loaded(model, source, encoder, device)
    with_data = tasks_with_data(loaded, source, known, tell)
    splits = labelled_rows(with_data, split, source, tell)
    with tokenizing(progress) as shown:
        data = {
            name: tokenize(own, loaded.tokenizer, loaded.max_length, progress=shown.of((name, split), own))
            for name, own in splits.items()
        }
    chosen = {name: fixed_examples(own, rows, seed, name) for name, own in data.items()}
    scores = scores_of(loaded, data, chosen, precision=precision)
    found = cast(Evaluation, {"split": split, **scores})
    if baselines:
        evaluated = [task for task in with_data if task.name in splits]
        train = {task.name: rows_of_task(task, ["train"]).splits[task.name, "train"] for task in evaluated}
        found["baselines"] = _baselines(loaded, train, splits, chosen)
    return found


def _known(model: Model | Run | str | Path, tasks: Any) -> tuple[str | Path, Known]:
    """Where the model comes from, for messages, and the tasks whose data is known."""
    from weft.config.run_file import RunFile
    from weft.tasks.task import Task

    listed: list[Any] = []
    one = isinstance(tasks, str | Path | Task | RunFile)
    for given in [] if tasks is None else [tasks] if one else tasks:
        listed += given.tasks if isinstance(given, RunFile) else [given]
    if (folder := _folder(model)) is not None:
        if listed:
            from weft.bundle.load import find_bundle

            find_bundle(folder)
        return folder, known_tasks(listed) if listed else find_tasks(folder, None)
    if not hasattr(model, "tasks"):
        raise WeftError(f"expected a model, a run, or the folder of a run or bundle; found {model!r}")
    if not listed:
        # a bundle's tasks are saved without their data
        listed = [task for task in model.tasks if task.files or task.hub or task.suite]  # type: ignore[union-attr]
        if not listed:
            raise WeftError("the model's tasks have no data; say where it is with: tasks='RUN.yaml'")
    return "the model", known_tasks(listed)


def _folder(model: Model | Run | str | Path) -> Path | None:
    if isinstance(model, str | Path):
        return Path(model)
    folder = getattr(model, "folder", None)  # a run
    return folder if isinstance(folder, Path) else None


def _loaded(model: Any, source: str | Path, encoder: Any, device: str | None) -> Model:
    from weft.bundle.load import load
    from weft.utils.devices import device_of

    if _folder(model) is not None:
        return load(source, encoder=encoder, device=device_of(device))
    if encoder is not None:
        raise WeftError("encoder belongs to the folder of a run or bundle; a model has its encoder")
    found: Model = model
    return found if device is None else found.to(device_of(device))


def _baselines(
    model: Model,
    train: Mapping[str, Split],
    splits: Mapping[str, Split],
    chosen: Mapping[str, Sequence[int]],
) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of both baselines by task, on the same examples."""
    from weft.data.splits.subset import rows_of
    from weft.evaluation.baselines import bag_of_words, majority

    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, own in train.items():
        task, test = model.tasks[model.task_id(name)], rows_of(splits[name], chosen[name])
        found.setdefault("majority", {})[name] = majority(task, own, test)
        found.setdefault("bag of words", {})[name] = bag_of_words(task, own, test) or {}
    return found
