"""Evaluating a model, a bundle or a run: the function behind `weft.evaluate` and `weft evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, cast

from weft.bundle.manifest import check_encoder, find_bundle, read_manifest
from weft.config.model_data import (
    KnownTasks,
    find_tasks,
    in_memory,
    known_tasks,
    labelled_rows,
    tasks_with_data,
)
from weft.errors import WeftError, did_you_mean, words
from weft.evaluation.run_metrics import FILES, VALIDATION, write_metrics
from weft.evaluation.scores import Scores
from weft.inference.precision import checked_precision
from weft.tasks.task import SPLITS
from weft.utils.devices import check_device
from weft.utils.notes import Tell, teller
from weft.workflows.error_files import ErrorFiles
from weft.workflows.fitting import Fitting, check_fitting

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.evaluation.rows.run_rows import SetRows
    from weft.model.model import Model
    from weft.training.run.run import Run


class Evaluation(Scores):
    """The result of an evaluation: `Scores` with the split and baselines.

    Attributes:
        split: the split.
        baselines: each baseline's metrics by task, if requested; {} for a task that it cannot predict.
        thresholds: the tuned thresholds of each task's labels, if requested; see `TunedLabel`.
        temperatures: the fitted temperature of each task, if requested; see `FittedTemperature`.
        tuned: the tasks whose thresholds were tuned on this split: their metrics are too good.
        errors: what is wrong, if requested; see docs/reference/errors.md.
    """

    split: str
    thresholds: NotRequired[dict[str, list[dict[str, Any]]]]
    temperatures: NotRequired[dict[str, dict[str, Any]]]
    errors: NotRequired[dict[str, Any]]
    tuned: NotRequired[list[str]]
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
    tune_thresholds: bool = False,
    calibrate: bool = False,
    report: bool = False,
    report_to: str | Path | None = None,
    predictions: str | Path | None = None,
    encoder: Any = None,
    device: str | None = None,
    progress: bool = True,
    collect: dict[str, SetRows] | None = None,
) -> Evaluation:
    """Evaluate a model on the labelled rows of its tasks. Returns what `weft evaluate --json` prints.

    Example:
        >>> scores = weft.evaluate("runs/first", split="validation")
        >>> scores["tasks"]["rte"], scores["average"]
        ({'accuracy': 0.71}, 0.71)
        >>> weft.evaluate("bundles/first", tasks="run.yaml", rows=500, precision="bf16")
        >>> errors = weft.evaluate("runs/first", report=True)["errors"]["tasks"]["rte"]
        >>> errors["examples"][0]["gold"], errors["calibration"]["ece"]
        ('entailment', 0.083)

    Of a run, the metrics of the test split are also written into its folder, as metrics.test.json, which
    `weft show averages --split test` reads; and with `report` its errors, as errors.json (of the test split,
    errors.test.json).

    Args:
        model: a model, a finished run, or the folder of a run or bundle.
        tasks: the data: a run file or task file, a `Task`, a `RunFile`, or a list of these. By default the
            run.yaml of the run, or the files of the model's tasks.
        split: `validation` or `test`.
        rows: evaluate about this many examples per task, the same ones every time; None: all.
        seed: random seed that selects these examples.
        precision: `float32`, or `bf16`, with which metrics differ slightly.
        baselines: also evaluate the majority label and a bag of words on the same examples.
        tune_thresholds: first find, for each label of multi-label tasks, the threshold with the largest F1 on
            these examples. The model uses them from now on; a bundle's task files are rewritten with them.
        calibrate: first fit the temperature of each task that predicts probabilities to these examples. The
            model uses it from now on; a bundle's task files are rewritten with it. No answer changes.
        report: also return what is wrong, under `errors`; docs/reference/errors.md lists the fields.
        report_to: write the report to this JSON file, and not into the run's folder; implies `report`.
        predictions: write one row per example to this file: gold, predicted, probability. JSON lines, or csv,
            tsv or parquet by its ending.
        encoder: folder or hub id of the encoder, if it has moved; only if `model` is a folder or a run.
        device: cpu, cuda, …; by default a GPU if there is one; a model stays where it is.
        progress: show the progress of tokenization and print notes, on standard error.
        collect: a dictionary that receives the row statistics of each evaluated set, which `weft compare`
            reads (`weft.evaluation.rows`).

    Returns:
        A dictionary: `split`; `tasks`, the metrics of each task, of which the first is its score; `rows` and
        `of`, how many examples were evaluated, and of how many; `average`, the mean of the scores;
        `baselines`, `thresholds`, `temperatures` and `errors`, if requested; and `tuned`, the tasks whose
        thresholds were tuned on this split.
    """
    from weft.data.splits.task_rows import rows_of_task

    if rows is not None and rows < 1:
        raise WeftError(f"rows must be at least 1; found {rows}")
    if split not in SPLITS:
        raise WeftError(f"split {split!r} does not exist; {did_you_mean(split, SPLITS)}")
    check_fitting(split, tune_thresholds, calibrate)
    files = ErrorFiles.checked(report or report_to is not None, report_to, predictions)
    check_device(device)
    checked_precision(precision)
    tell = teller(progress)
    source, known = _known(model, tasks)
    if (folder := _folder(model)) is not None:
        check_encoder(read_manifest(find_bundle(folder)), encoder)

    from weft.data.tokens.progress import tokenizing
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation.evaluate import evaluate as scores_of
    from weft.evaluation.evaluate import fixed_examples

    fitting = Fitting.begin(folder) if tune_thresholds or calibrate else None
    loaded = _loaded(model, source, encoder, device)
    with_data = tasks_with_data(loaded, source, known, tell)
    splits = labelled_rows(with_data, split, source, tell)
    with tokenizing(progress) as shown:
        data = {
            name: tokenize(
                labelled, loaded.tokenizer, loaded.max_length, progress=shown.of((name, split), labelled)
            )
            for name, labelled in splits.items()
        }
    chosen = {name: fixed_examples(tokens, rows, seed, name) for name, tokens in data.items()}
    fitted: dict[str, Any] = {}
    if fitting is not None:
        fitted = fitting.run(loaded, data, chosen, precision, tell, tune_thresholds, calibrate)
    scores = scores_of(loaded, data, chosen, precision=precision, collect=collect, watch=files.watch)
    evaluation = cast(Evaluation, {"split": split, **scores, **fitted})
    if names := [task.name for task in loaded.tasks if task.tuned_on == split and task.name in splits]:
        evaluation["tuned"] = names
        tell(
            f"{', '.join(names)}: the thresholds were tuned on {split}, so these metrics are too good; "
            f"evaluate a split that nothing was chosen on: {words('--split test', 'split=' + repr('test'))}"
        )
    if baselines:
        evaluated = [task for task in with_data if task.name in splits]
        train = {task.name: rows_of_task(task, ["train"]).splits[task.name, "train"] for task in evaluated}
        evaluation["baselines"] = _baselines(loaded, train, splits, chosen)
    if folder is not None and split != VALIDATION and (folder / "run.yaml").is_file():
        _record(folder, evaluation, bool(tasks), rows, precision, tell)
    if (errors := files.write(folder, bool(tasks), split, precision, tell)) is not None:
        evaluation["errors"] = errors
    return evaluation


def _record(
    folder: Path, evaluation: Evaluation, other_data: bool, rows: int | None, precision: str, tell: Tell
) -> None:
    """Write the metrics of a run's test split into its folder, unless they are not comparable.

    Args:
        folder: the run's folder.
        evaluation: the result.
        other_data: whether the data is not that of the run.
        rows: the requested number of rows; None: all.
        precision: the precision of the passes.
        tell: called with a note on what was written, or why nothing was.
    """
    file = FILES[evaluation["split"]]
    if other_data:
        reason = f"the data is not that of the run ({words('--tasks', 'tasks')})"
    elif rows is not None and evaluation["rows"] != evaluation["of"]:
        reason = f"not all rows were evaluated ({words('--rows', 'rows')})"
    elif precision != "float32":
        reason = f"the precision is {precision}; expected float32, as in {FILES[VALIDATION]}"
    else:
        try:
            tell(f"written: {write_metrics(folder, evaluation)}")
        except OSError as failed:
            tell(f"{file} is not written into {folder}: {failed.strerror or failed}")
        return
    tell(f"{file} is not written into {folder}: {reason}")


def _known(model: Model | Run | str | Path, tasks: Any) -> tuple[str | Path, KnownTasks]:
    """The name of the model's source, for messages, and the tasks whose data is known."""
    from weft.config.run_file import RunFile
    from weft.tasks.task import Task

    if tasks is None:
        tasks = []
    elif isinstance(tasks, str | Path | Task | RunFile):
        tasks = [tasks]
    listed: list[Any] = []
    for entry in tasks:
        listed += entry.tasks if isinstance(entry, RunFile) else [entry]
    if (folder := _folder(model)) is not None:
        if listed:
            find_bundle(folder)
        if listed:
            return folder, known_tasks(listed)
        # the rows of a run that was just trained may be in memory
        trained = [task for task in getattr(model, "tasks", ()) if in_memory(task)]
        known = find_tasks(folder, None)
        return folder, replace(known, tasks={**known.tasks, **{task.name: task for task in trained}})
    if not hasattr(model, "tasks"):
        raise WeftError(f"expected a model, a run, or the folder of a run or bundle; found {model!r}")
    if not listed:
        # a loaded bundle's tasks have no data
        listed = [task for task in model.tasks if task.files or task.hub or task.suite]  # type: ignore[union-attr]
        if not listed:
            raise WeftError(
                "the model's tasks have no data; pass a run file that names it: tasks='RUN.yaml', or tasks "
                "with rows: tasks=[weft.Task(…, data=…)]"
            )
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
        raise WeftError("encoder can be set only for the folder of a run or bundle; a model has its encoder")
    as_model: Model = model
    return as_model if device is None else as_model.to(device_of(device))


def _baselines(
    model: Model,
    train: Mapping[str, Split],
    splits: Mapping[str, Split],
    chosen: Mapping[str, Sequence[int]],
) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of both baselines by task, on the chosen examples."""
    from weft.data.splits.subset import rows_of
    from weft.evaluation.baselines import MAJORITY, WORDS, bag_of_words, majority

    metrics: dict[str, dict[str, dict[str, float]]] = {}
    for name, train_rows in train.items():
        task, test_rows = model.tasks[model.task_id(name)], rows_of(splits[name], chosen[name])
        metrics.setdefault(MAJORITY, {})[name] = majority(task, train_rows, test_rows)
        metrics.setdefault(WORDS, {})[name] = bag_of_words(task, train_rows, test_rows) or {}
    return metrics
