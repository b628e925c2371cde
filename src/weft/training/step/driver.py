"""The driver of a run's steps: it prepares steps ahead and passes them to an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.sampling.plan.plan import Candidates, Plan, Step
from weft.training.engines import ENGINES, FALLBACK, build_engine
from weft.training.engines import (
    choose_engine as choose_engine,  # also imported from here
)
from weft.training.engines.engine import Engine, EngineFailed, Move
from weft.training.engines.verifier import Verifier
from weft.training.engines.verify import Disagreement
from weft.training.optim.owners import OwnerOptimizers
from weft.training.optim.precision import is_bf16
from weft.training.settings import Training
from weft.training.step.gradients import Measures, Penalty, StepGradients
from weft.training.step.microbatches import MicroBatches, PreparedStep
from weft.training.step.prefetch import Ahead
from weft.training.step.shapes import Shapes
from weft.training.step.task_losses import Floats, TaskLosses
from weft.utils.counter_rng import Ints
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model

AHEAD = 16
"""The number of steps prepared ahead if the steps run on a GPU."""


class Driver:
    """Prepares steps and runs them with an engine.

    Args:
        model: the model, on its device.
        training: the settings of `train`.
        train: the tokenized training rows of each task of the plan, [T].
        names: the names of the tasks of the plan, [T].
        ids: the model's id of each task, [T].
        plan: the plan of the run.
        processes: the processes that train together.

    Attributes:
        name: the name of the engine.
        note: why the engine is not the requested one, in a sentence; None if it is.
        shapes: the shapes that batches are padded to; None: each is padded to its longest row.
        gradients: computes the gradients of a step.
        waited: the seconds that steps waited for batches that were still being prepared.
        verifier: the record of the engine's verification; None if nothing is verified.
        fallback: how the run fell back to `eager`: `from`, `step` and `why`; None: it did not.
        events: lines about the engine for the log; the loop writes and removes them.
    """

    def __init__(
        self,
        model: Model,
        training: Training,
        train: Sequence[Tokens],
        names: list[str],
        ids: Ints,
        plan: Plan,
        processes: Processes,
    ) -> None:
        self.name, self.note = choose_engine(model, training, processes)
        self.shapes: Shapes | None = None
        if ENGINES[self.name].compiles:
            by_task = training.conflict is not None
            self.shapes = Shapes(train, plan, training.accumulate, model.longest, by_task)
        self.microbatches = MicroBatches(model, training, train, ids, processes, self.shapes)
        self.gradients = StepGradients(model, self.microbatches, names)
        self.waited = 0.0
        self.verifier: Verifier | None = None
        if training.verify_engine and ENGINES[self.name].compiles:
            self.verifier = Verifier(is_bf16(training, self.gradients.device), plan.steps)
        self.fallback: dict[str, Any] | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._plain = self._verification_logged = False
        self._failed_losses = TaskLosses.zero(len(names))
        self._engine: Engine | None = None
        self._ahead: Ahead[PreparedStep] | None = None
        self._optimizers: OwnerOptimizers | None = None
        self._penalty: Penalty | None = None

    def begin(self, optimizers: OwnerOptimizers, penalty: Penalty | None) -> None:
        """Begin a phase of the run, with these optimizers and this penalty in the loss of every step."""
        self.close()
        self._optimizers, self._penalty = optimizers, penalty

    @property
    def engine(self) -> Engine:
        """The engine that runs the steps of the present phase."""
        if self._engine is None:
            assert self._optimizers is not None, "no phase has begun"
            self._engine = build_engine(
                self.name, self.gradients, self._optimizers, self._penalty, self.verifier, self._plain
            )
        return self._engine

    @property
    def trunk_note(self) -> str | None:
        """A note for the user about the trunk cache, if there is any; this builds the engine."""
        _ = self.engine
        return None if self.microbatches.trunk is None else self.microbatches.trunk.note

    def prepared(self, step: Step) -> PreparedStep:
        """Prepare a step now."""
        return self.engine.prepare(self.microbatches.prepare(step))

    def take(self, plan: Plan, number: int) -> PreparedStep:
        """Return a step of the plan, prepared ahead; steps are taken in order until `drop_ahead`."""
        if self._ahead is None:
            # on a CPU the cores are busy with the step itself
            ahead = 0 if self.gradients.device.type == "cpu" else AHEAD
            _ = self.engine  # built here, before the thread uses it
            self._ahead = Ahead(lambda n: self.prepared(plan.step(n)), number, plan.steps, ahead)
        return self._ahead.take(number)

    def run(self, prepared: PreparedStep, move: Move, say: Callable[[str], None]) -> None:
        """Run a step; if the engine fails, report the reason and fall back to eager."""
        try:
            self.engine.step(prepared, move)
        except EngineFailed as why:
            self._give_up(why, prepared.step.number, say)
            self.engine.step(prepared, move)
        probe = self.engine.probe
        if probe is not None:
            probe.verifier.stepped(probe.new_shape)
            # now and not only at the end, which a run might not reach
            if probe.new_shape and not self._verification_logged:
                self._verification_logged = True
                self.events.append(("verified", {"step": prepared.step.number, **probe.verifier.report()}))
            probe.new_shape = False

    def measured(
        self, candidates: Candidates, measures: Measures, dropout: bool, say: Callable[[str], None]
    ) -> Floats:
        """Measure the model's uncertainty of candidates, [C]; if the engine fails, fall back as in `run`."""
        try:
            return self.engine.measured(candidates, measures, dropout)
        except EngineFailed as why:
            self._give_up(why, candidates.number, say)
            return self.engine.measured(candidates, measures, dropout)

    def losses(self) -> TaskLosses:
        """The losses of the steps since the last call, including those run by an engine that failed."""
        losses = self.engine.losses()
        losses.add(self._failed_losses)
        self._failed_losses = TaskLosses.zero(len(self.gradients.names))
        return losses

    def report(self) -> dict[str, Any]:
        """The engine that ran the steps, whether it was a fallback, and what was verified; for the log."""
        fields: dict[str, Any] = {"engine": self.name}
        if self.fallback is not None:
            fields["engine_fallback"] = self.fallback
        if self.verifier is not None:
            fields["verified"] = self.verifier.report()
        return fields

    def _give_up(self, why: EngineFailed, step: int, say: Callable[[str], None]) -> None:
        self.note = str(why)
        say(f"train.engine {self.name}: {why}; the run continues with {FALLBACK}")
        self.fallback = {"from": self.name, "step": step, "why": str(why)}
        event: dict[str, Any] = {"step": step, "from": self.name, "to": FALLBACK, "why": str(why)}
        if isinstance(why, Disagreement):
            # if the patches are wrong, the eager engine must not use them either
            self._plain = why.patches
            event |= {"shape": list(why.shape), "difference": why.difference.as_dict()}
        self.events.append(("engine", event))
        self._failed_losses.add(self.engine.losses())
        self.close()
        self.name = FALLBACK

    def drop_ahead(self) -> None:
        """Drop the steps that were prepared ahead, because the plan has changed."""
        if self._ahead is not None:
            self._ahead.close()
            if self.gradients.device.type != "cpu":
                self.waited += self._ahead.waited
            self._ahead = None

    def close(self) -> None:
        """End the prefetching thread and undo the engine's patches of the model."""
        self.drop_ahead()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
