"""What carries a run's steps out: they are prepared ahead, and an engine runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.sampling.plan.plan import Candidates, Plan, Step
from weft.training.engines import ENGINES, FALLBACK, build_engine
from weft.training.engines import (
    choose_engine as choose_engine,  # those who ask for a run's engine look here too
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
"""How many steps are prepared ahead where the steps themselves run on another device."""


class Driver:
    """Prepares steps and has them run.

    Args:
        model: the model, on its device.
        training: how to train.
        train: the tokenized training rows of each task of the plan, [T].
        names: the tasks of the plan, [T].
        ids: the model's id of each, [T].
        plan: of the run.
        processes: those that train together.

    Attributes:
        name: of the engine.
        note: why it is not the engine that was wanted, in a sentence; None if it is.
        shapes: what batches are padded to; None: to their longest row.
        gradients: what computes the gradients of a step.
        waited: the seconds that steps waited for batches that were still being prepared.
        verifier: what is known of how well the engine computes; None where nothing is verified.
        fallback: how the run fell back to `eager`: `from`, `step` and `why`; None: it did not.
        events: what the log is to say of the engine, until somebody takes it.
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
            self.shapes = Shapes(train, plan, training.accumulate, model.longest)
        self.parts = MicroBatches(model, training, train, ids, processes, self.shapes)
        self.gradients = StepGradients(model, self.parts, names)
        self.waited = 0.0
        self.verifier: Verifier | None = None
        if training.verify_engine and ENGINES[self.name].compiles:
            self.verifier = Verifier(is_bf16(training, self.gradients.device), plan.steps)
        self.fallback: dict[str, Any] | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._plain = self._told = False
        self._lost = TaskLosses.zero(len(names))
        self._engine: Engine | None = None
        self._ahead: Ahead[PreparedStep] | None = None
        self._optimizers: OwnerOptimizers | None = None
        self._penalty: Penalty | None = None

    def begin(self, optimizers: OwnerOptimizers, penalty: Penalty | None) -> None:
        """A phase of the run begins, with these optimisers and this term of every step's loss."""
        self.close()
        self._optimizers, self._penalty = optimizers, penalty

    @property
    def engine(self) -> Engine:
        """What runs the steps of the present phase."""
        if self._engine is None:
            assert self._optimizers is not None, "no phase has begun"
            self._engine = build_engine(
                self.name, self.gradients, self._optimizers, self._penalty, self.verifier, self._plain
            )
        return self._engine

    @property
    def trunk_note(self) -> str | None:
        """What a user should know of a trunk that is kept; the engine is made for it."""
        _ = self.engine
        return None if self.parts.trunk is None else self.parts.trunk.note

    def prepared(self, step: Step) -> PreparedStep:
        """A step, prepared now."""
        return self.engine.prepare(self.parts.prepare(step))

    def take(self, plan: Plan, number: int) -> PreparedStep:
        """A step of the plan, prepared ahead; one after another, until what is ahead is dropped."""
        if self._ahead is None:
            # on a CPU the cores are busy with the step itself
            ahead = 0 if self.gradients.device.type == "cpu" else AHEAD
            _ = self.engine  # made here, and used by the thread
            self._ahead = Ahead(lambda n: self.prepared(plan.step(n)), number, plan.steps, ahead)
        return self._ahead.take(number)

    def run(self, prepared: PreparedStep, move: Move, say: Callable[[str], None]) -> None:
        """Run a step; where the engine cannot, it says so, and the run goes on without it."""
        try:
            self.engine.step(prepared, move)
        except EngineFailed as why:
            self._give_up(why, prepared.step.number, say)
            self.engine.step(prepared, move)
        probe = self.engine.probe
        if probe is not None:
            probe.verifier.stepped(probe.met)
            if probe.met and not self._told:  # now and not only at the end, which a run may not reach
                self._told = True
                self.events.append(("verified", {"step": prepared.step.number, **probe.verifier.report()}))
            probe.met = False

    def measured(
        self, candidates: Candidates, measures: Measures, dropout: bool, say: Callable[[str], None]
    ) -> Floats:
        """What the model thinks of candidates, [C]; where the engine cannot tell, as in `run`."""
        try:
            return self.engine.measured(candidates, measures, dropout)
        except EngineFailed as why:
            self._give_up(why, candidates.number, say)
            return self.engine.measured(candidates, measures, dropout)

    def losses(self) -> TaskLosses:
        """What the steps since this was last asked have lost, those of an engine that failed included."""
        found = self.engine.losses()
        found.add(self._lost)
        self._lost = TaskLosses.zero(len(self.gradients.names))
        return found

    def report(self) -> dict[str, Any]:
        """How the steps were run: the engine, whether the run fell back to it, and what was verified."""
        told: dict[str, Any] = {"engine": self.name}
        if self.fallback is not None:
            told["engine_fallback"] = self.fallback
        if self.verifier is not None:
            told["verified"] = self.verifier.report()
        return told

    def _give_up(self, why: EngineFailed, step: int, say: Callable[[str], None]) -> None:
        self.note = str(why)
        say(f"train.engine {self.name}: {why}; the run goes on with {FALLBACK}")
        self.fallback = {"from": self.name, "step": step, "why": str(why)}
        event: dict[str, Any] = {"step": step, "from": self.name, "to": FALLBACK, "why": str(why)}
        if isinstance(why, Disagreement):
            # patches that are wrong must not be worn by the eager engine either
            self._plain = why.patches
            event |= {"shape": list(why.shape), "difference": why.difference.as_dict()}
        self.events.append(("engine", event))
        self._lost.add(self.engine.losses())
        self.close()
        self.name = FALLBACK

    def drop_ahead(self) -> None:
        """Forget what was prepared ahead: the plan no longer holds it."""
        if self._ahead is not None:
            self._ahead.close()
            if self.gradients.device.type != "cpu":
                self.waited += self._ahead.waited
            self._ahead = None

    def close(self) -> None:
        """End what runs beside the loop, and leave the model as it is outside training."""
        self.drop_ahead()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
