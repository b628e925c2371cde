"""Writing what an evaluation got wrong: errors.json in a run's folder, and a file of all predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.manifest import bundle_sha256
from weft.errors import WeftError, words
from weft.evaluation.run_metrics import ERRORS
from weft.tasks.task import ALSO
from weft.utils.files import write_json
from weft.utils.notes import Tell
from weft.utils.strict_json import finite_or_null
from weft.workflows.prediction_output import check_output, open_output

if TYPE_CHECKING:
    from weft.evaluation.errors.evaluated import EvaluatedSet
    from weft.evaluation.errors.report import SetErrors

AT_ONCE = 1024
"""How many rows of predictions are made at once."""


@dataclass
class ErrorFiles:
    """The files that an evaluation writes about its errors.

    Attributes:
        report: whether a report was requested.
        report_to: the file of the report; None: that of the run's folder.
        predictions: the file of predictions; None: none.
        sets: the errors of each evaluated set.
    """

    report: bool
    report_to: Path | None = None
    predictions: Path | None = None
    sets: dict[str, SetErrors] = field(default_factory=dict)

    @classmethod
    def checked(
        cls, report: bool, report_to: str | Path | None, predictions: str | Path | None
    ) -> ErrorFiles:
        """Check the names of files, before a model is loaded."""
        files = {"report_to": report_to, "predictions": predictions}
        paths = {key: None if file is None else Path(file) for key, file in files.items()}
        for key, path in paths.items():
            if path is not None:
                check_output(path, words(f"--{key.replace('_', '-')}", key))
        both = [path for path in paths.values() if path is not None]
        if len(both) == 2 and both[0].resolve() == both[1].resolve():
            raise WeftError(
                f"the report and the predictions are to be written to one file, {both[0]}; name two"
            )
        return cls(report, paths["report_to"], paths["predictions"])

    @property
    def watch(self) -> Callable[[EvaluatedSet], object] | None:
        """What looks at every evaluated set; None if nothing was requested."""
        return self._add if self.report or self.predictions is not None else None

    def _add(self, evaluated: EvaluatedSet) -> None:
        from weft.evaluation.errors.report import SetErrors

        self.sets[evaluated.name] = SetErrors(evaluated)

    def write(
        self, folder: Path | None, other_data: bool, split: str, precision: str, tell: Tell
    ) -> dict[str, Any] | None:
        """Write the files; return the report if it was requested.

        Args:
            folder: the folder of a run or bundle; None for a model in memory.
            other_data: whether the data is not that of the run.
            split: the split.
            precision: the precision of the passes.
            tell: called with notes on what was written, or why nothing was.
        """
        if self.predictions is not None:
            self._write_predictions(self.predictions, tell)
        if not self.report:
            return None
        from weft.evaluation.errors.report import report_of

        sha256 = None if folder is None else bundle_sha256(folder)
        report: dict[str, Any] = finite_or_null(report_of(self.sets, split, precision, sha256))
        if self.report_to is not None:
            write_json(self.report_to, report)
            tell(f"written: {self.report_to}")
        elif folder is not None and (folder / "run.yaml").is_file():
            _write_into(folder, report, other_data, tell)
        return report

    def _write_predictions(self, file: Path, tell: Tell) -> None:
        output = open_output(file)
        complete = False
        rows = self._rows()
        try:
            while batch := list(islice(rows, AT_ONCE)):
                output.write(batch)
            complete = True
        finally:
            output.close(complete)
        tell(f"written: {file}")

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The rows of all sets; they name the set if there are further sets."""
        further = any(ALSO in name for name in self.sets)
        for errors in self.sets.values():
            for n in range(len(errors)):
                row = errors.prediction(n)
                yield row if further else {key: value for key, value in row.items() if key != "set"}


def _write_into(folder: Path, report: dict[str, Any], other_data: bool, tell: Tell) -> None:
    """Write a report into a run's folder, unless its data is not that of the run.

    Args:
        folder: the run's folder.
        report: the report.
        other_data: whether the data is not that of the run.
        tell: called with a note on what was written, or why nothing was.
    """
    file = ERRORS[report["split"]]
    if other_data:
        name_one = words("--report-to FILE", "report_to=FILE")
        reason = f"the data is not that of the run ({words('--tasks', 'tasks')}); name a file with {name_one}"
    else:
        try:
            write_json(folder / file, report)
        except OSError as failed:  # the scores are worth printing all the same
            reason = str(failed.strerror or failed)
        else:
            tell(f"written: {folder / file}")
            return
    tell(f"{file} is not written into {folder}: {reason}")
