"""Writing a submission to a benchmark: the function behind `weft submit`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.config.model_data import find_tasks
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.data.readers.problem import Problem
    from weft.evaluation.submission import Benchmark
    from weft.evaluation.submission.benchmark import Report


def submit(
    source: Path,
    benchmark: Benchmark,
    out: Path,
    *,
    files: Sequence[str] | None = None,
    fill: Collection[str] = (),
    insist: Sequence[str] = (),
    encoder: Any = None,
    device: str | None = None,
) -> tuple[Report, list[Problem]]:
    """Predict the test sets, write the zip file that a benchmark's server accepts, and check it.

    Args:
        source: a run's folder, or a bundle.
        benchmark: one of `weft.evaluation.submission.BENCHMARKS`.
        out: the zip file to write.
        files: run files that name the data of a bundle; None: the run.yaml of the run.
        fill: tasks whose files are filled with a constant although the model could predict them.
        insist: tasks whose files hold the model's predictions although papers fill them with a constant.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.

    Returns:
        A report on what was written, and the problems that the check has found.
    """
    known = find_tasks(source, files)
    from weft.evaluation.submission.predictions import find_test_sets, predictions_of

    sets = find_test_sets(benchmark, known.tasks, fill)
    if not sets.splits:
        raise WeftError(
            f"{known.where}: no task of {benchmark.title} has a test file, so there is nothing to submit of "
            f"{source}; name a run file with test files: --tasks RUN.yaml"
        )
    from weft.bundle.load import load
    from weft.utils.devices import device_of

    model = load(source, encoder=encoder, device=device_of(device))
    predictions, reasons = predictions_of(model, benchmark, sets)
    report = benchmark.write(predictions, out, reasons, insist=insist)
    return report, benchmark.check(out)
