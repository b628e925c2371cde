"""Settings of tasks that an evaluation fits: thresholds and temperatures, and their place in the bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.manifest import find_bundle
from weft.errors import RunFailed, WeftError, words
from weft.utils.hub_repository import check_not_in_cache
from weft.utils.notes import Tell

if TYPE_CHECKING:
    from weft.bundle.state import BundleState
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.tasks.task import Task

SPLIT = "validation"
"""The split that settings are fitted on."""
THRESHOLDS, TEMPERATURES = "thresholds", "temperatures"
"""Their keys in the result of an evaluation."""


def check_fitting(split: str, thresholds: bool, temperatures: bool) -> None:
    """Refuse to fit settings on another split than validation."""
    if split == SPLIT or not (thresholds or temperatures):
        return
    what = "thresholds are tuned" if thresholds else "temperatures are fitted"
    raise WeftError(f"{what} on {SPLIT}; found split {split!r}: do that first, then evaluate {split}")


@dataclass(frozen=True)
class Fitting:
    """Fits settings of a model's tasks, and stores them in its bundle.

    Attributes:
        bundle: the bundle; None for a model in memory, which is changed itself.
        before: what the bundle holds before it is loaded.
    """

    bundle: Path | None = None
    before: BundleState | None = None

    @classmethod
    def begin(cls, folder: Path | None) -> Fitting:
        """Look at the bundle before it is loaded.

        Args:
            folder: the folder of a run or bundle; None for a model in memory.
        """
        if folder is None:
            return cls()
        from weft.bundle.state import state_of

        bundle = find_bundle(folder)
        check_not_in_cache(bundle)  # now, and not after the evaluation
        return cls(bundle, state_of(bundle))

    def run(
        self,
        model: Model,
        data: Mapping[str, Tokens],
        rows: Mapping[str, Sequence[int]],
        precision: str,
        tell: Tell,
        thresholds: bool,
        temperatures: bool,
    ) -> dict[str, Any]:
        """Fit settings; return them as the result of an evaluation has them.

        Args:
            model: the model; its tasks are changed.
            data: the tokenized validation rows of each task.
            rows: the examples of each task to use.
            precision: the precision of the passes.
            tell: called with notes.
            thresholds: whether to tune the thresholds of labels.
            temperatures: whether to fit temperatures; this comes first, because thresholds are probabilities.
        """
        from weft.inference.precision import precision_context

        context = precision_context(model, precision)
        result: dict[str, Any] = {}
        if temperatures:
            from weft.evaluation import temperature

            fits = temperature.calibrate_model(model, data, rows, SPLIT, context)
            for name, fit in fits.items():
                if fit.count < temperature.FEW:
                    tell(f"{name}: fitted on {fit.count} decisions: its temperature is uncertain")
            result[TEMPERATURES] = {name: fit.as_dict() for name, fit in fits.items()}
        if thresholds:
            from weft.evaluation.thresholds import FEW, tune_model

            tuned = tune_model(model, data, rows, SPLIT, context)
            for name, labels in tuned.items():
                if few := [label.label for label in labels if label.examples < FEW]:
                    tell(
                        f"{name}: fewer than {FEW} rows have {', '.join(few)}: their thresholds are uncertain"
                    )
            result[THRESHOLDS] = {
                name: [label.as_dict() for label in labels] for name, labels in tuned.items()
            }
        changed = dict.fromkeys(name for fits in result.values() for name in fits)
        self._store([model.tasks[model.task_id(name)] for name in changed], " and ".join(result))
        return result

    def _store(self, tasks: Sequence[Task], what: str) -> None:
        """Write the settings of tasks to the bundle, unless others have changed the weights meanwhile."""
        if self.bundle is None or self.before is None:
            return
        from weft.bundle.one_task import with_settings
        from weft.bundle.state import state_of
        from weft.bundle.writing import writing_bundle

        bundle, before = self.bundle, self.before
        with writing_bundle(bundle, words("weft evaluate", "weft.evaluate")):
            now = state_of(bundle)
            names = [task.name for task in tasks if now.tasks.get(task.name) != before.tasks[task.name]]
            if names or now.base != before.base:
                changed = ", ".join(names) or "what tasks share"
                raise RunFailed(
                    f"{bundle} was changed while it was evaluated ({changed}); "
                    f"the fitted {what} belong to the weights before, and were not stored: evaluate it again"
                )
            with_settings(bundle, tasks)
