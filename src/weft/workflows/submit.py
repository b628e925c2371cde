"""A model's answers to a benchmark's test sets as a zip: what `weft submit` does."""

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
    """Write the zip that a benchmark's server takes, and check it.

    Args:
        source: a run's folder, or a bundle.
        benchmark: one of `weft.evaluation.submission.BENCHMARKS`.
        out: the zip.
        files: run files that say where a bundle's data is; None: the run's own.
        fill: tasks whose files are filled with a constant though they could be answered.
        insist: tasks whose files hold the model's answers though papers fill them.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.

    Returns:
        What was written, and what is wrong with it.
    """
    known = find_tasks(source, files)
    from weft.evaluation.submission.predictions import find_test_sets, predictions_of

    sets = find_test_sets(benchmark, known.tasks, fill)
    if not sets.splits:
        raise WeftError(
            f"{known.where}: no task of {benchmark.title} has a test file: a submission would hold nothing "
            f"of {source}; say where they are with: --tasks RUN.yaml"
        )
    from weft.bundle.load import load
    from weft.utils.devices import device_of

    model = load(source, encoder=encoder, device=device_of(device))
    answers, why = predictions_of(model, benchmark, sets)
    report = benchmark.write(answers, out, why, insist=insist)
    return report, benchmark.check(out)
