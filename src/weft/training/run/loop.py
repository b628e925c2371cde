"""The training loop: it runs the plan's steps, with evaluations and checkpoints in between."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.tokens.cache import FORMAT
from weft.evaluation.scores import Scores, shown_metric
from weft.sampling.plan.plan import Plan, Step
from weft.training.engines.engine import Move
from weft.training.optim.owners import OwnerOptimizers
from weft.training.run.checkpoint import load_checkpoint, read_more, trained_tensors
from weft.training.run.checkpoint_files import read_state
from weft.training.run.component import Component, StepDone
from weft.training.run.components import Components, components_of
from weft.training.run.interrupt import Interrupted, Interruptions
from weft.training.run.log import Log, NoLog
from weft.training.run.loop_state import save_loop
from weft.training.run.phases import Phases
from weft.training.run.plan import RunPlan, plan_of
from weft.training.run.progress import Progress, Quiet, early
from weft.training.run.records import Records
from weft.training.run.state import State
from weft.training.run.stopping import stop_message
from weft.training.run.validation import Validation
from weft.training.settings import Training
from weft.training.step.driver import Driver
from weft.training.step.gradients import sharded
from weft.training.step.microbatches import PreparedStep
from weft.training.uncertainty import chooser_of
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.training.step.task_losses import TaskLosses


class Loop:
    """Trains a model by a plan.

    A model with L0 gates has two phases: first `l0.steps` steps in which gates are sampled and penalized;
    then the gates are decided, and `train.steps` steps follow with new optimizers and a new schedule. Only
    the second phase has a best model.

    Args:
        model: the model, on its device.
        training: the settings of `train`; `lr` must be set.
        train: the tokenized training rows of each task that trains, in the order of `tasks`.
        validation: the tokenized validation rows by task name; those of a further set as `TASK:SET`.
        folder: the run's folder, for checkpoints.
        tasks: the names of the tasks that train; by default all, in the order of their ids.
        processes: the processes that train together; by default only this one.
        components: the user's components, called after weft's.
        evaluate_start: whether the initial weights, and then also the last ones, are evaluated in any case.

    Attributes:
        components: all components of the run; see `Component` for when each hook is called.
        run_plan: which examples the steps train on, and the tasks that have stopped.
        validation: the evaluations and the best weights.
        settings: the content of run.yaml, which checkpoints hold too.
        finished: whether the steps are done and the model has its final weights.
    """

    def __init__(
        self,
        model: Model,
        training: Training,
        train: list[Tokens],
        validation: Mapping[str, Tokens],
        folder: Path,
        tasks: Sequence[str] | None = None,
        processes: Processes | None = None,
        components: Sequence[Component] = (),
        evaluate_start: bool = False,
    ) -> None:
        self.model, self.training, self.train = model, training, train
        self._evaluate_start = evaluate_start
        self.processes = processes or Processes()
        self.names = [task.name for task in model.tasks] if tasks is None else list(tasks)
        # the plan numbers only the tasks that train; the model numbers all of its tasks
        self.ids = np.array([model.task_id(name) for name in self.names], np.int64)
        self.folder, self.checkpoints = folder, folder / "checkpoints"
        self.log: Log = NoLog()
        self.progress: Progress = Quiet()
        self.settings: dict[str, Any] = {}
        self.phases = Phases(model, training)
        self.before, self.total = self.phases.before, self.phases.total
        sizes = [len(tokens) for tokens in train]
        lengths = [tokens.lengths for tokens in train]
        self.run_plan = RunPlan(plan_of(training, self.names, sizes, lengths, self.before))
        keys = [tokens.key for tokens in (*train, *validation.values())]
        # must be unchanged when the run is resumed: the order, every text and label, the encoder's weights
        self.data = {
            "tokens": FORMAT,
            "plan": self.plan.fingerprint(),
            "rows": keys,
            "encoder": model.encoder_source.sha256,
            "encoder_files": dict(model.encoder_source.files),
        }
        self.state = State.fresh(len(train))
        self.finished = False
        self._began = time.monotonic()
        self.records = Records(self.names, self.processes)
        self.validation = Validation(
            model, training, validation, self.names, self.checkpoints, self.processes, self.records
        )
        sharded(model, training, self.processes)
        self.driver = Driver(model, training, train, self.names, self.ids, self.plan, self.processes)
        self.chooser = chooser_of(model, self.names, sizes, self.plan)
        epoch = max(1, round(self.plan.epoch().steps))
        gradients = self.driver.gradients
        configured = components_of(model, training, self.names, sizes, epoch, self.phases, gradients)
        configured += [] if self.chooser is None else [self.chooser]
        self.components = Components([*configured, *components])
        self.optimizers = self._new_optimizers()
        self.components.begin(self)

    def resume(self, checkpoint: Path) -> dict[str, Any]:
        """Continue from a checkpoint; returns the checkpoint's JSON state."""
        self.state = State.read(read_state(checkpoint)["loop"], len(self.names))
        if self.before and self.state.step >= self.before:
            self.components.at_phase(resumed=True)
            self.optimizers = self._new_optimizers()
            self.driver.gradients.arrange()
        facts = load_checkpoint(checkpoint, self.model, self.optimizers)
        self.validation.best.checksums.update(facts.get("best", {}))
        self.run_plan.follow(self.state.stops)
        self.components.load_states(self.state.parts, read_more(checkpoint), self.state.step)
        return facts

    @property
    def plan(self) -> Plan:
        """Which examples the next steps train on."""
        return self.run_plan.plan

    @property
    def ended(self) -> bool:
        """Whether no step is left: all are done, or every task has stopped."""
        return self.state.step >= self.total or self.run_plan.over(self.state.stops)

    def say(self, text: str) -> None:
        """See `RunContext`."""
        self.progress.say(text)

    def write_log(self, event: str, **fields: Any) -> None:
        """See `RunContext`."""
        self.log.write(event, **fields)

    def at_rest(self) -> AbstractContextManager[object]:
        """See `RunContext`."""
        return self.driver.engine.at_rest()

    def stop_task(self, task: int) -> None:
        """See `RunContext`."""
        state, name = self.state, self.names[task]
        scores = state.tasks[task]
        at = self.plan.stop_at(state.step)
        state.stops.append((at, task))
        self.log.write(
            "stop", step=state.step, task=name, at=at, best=scores.best, best_step=scores.best_step
        )
        self.say(stop_message(name, scores.best_step, state.step, at))

    def run(self, log: Log, progress: Progress) -> Scores:
        """Train to the end and return the scores of the last evaluation; the model has the best weights."""
        self.log, self.progress = log, progress
        with Interruptions(self.training.checkpoint_every, self.processes) as interruptions:
            if self._evaluate_start and not self.state.step and not self.before and self.total:
                self._evaluate()
            self._steps(interruptions)
        self.finish()
        return self.validation.scores(self.state.step, whole=self.training.last_evaluation == "whole")

    def _steps(self, interruptions: Interruptions) -> None:
        """Take all steps that are left."""
        log, progress = self.log, self.progress
        began = self._began = time.monotonic() - self.state.seconds
        while not self.ended:
            step_began = time.monotonic()
            prepared = self._next()
            self._step(prepared)
            self._log_engine()
            if self.chooser is not None:  # the choice depends on the weights: the plan alone cannot repeat it
                log.write("chosen", **self.chooser.chosen_fields(prepared.step))
            self._count(prepared.step)
            self.state.note_time(began, step_began, prepared.step.real)
            done, last = self.state.step, self.state.step == self.total
            progress.step(done, self._losses(done))
            if self.before and done == self.before:
                self._next_phase()
            every = self.training.evaluate_every
            if (every and done % every == 0) or (last and (every or self.state.best is not None)):
                self._evaluate()
            if not self.ended and interruptions.checkpoint_due(done):
                self._checkpoint()
                interruptions.saved()
                if interruptions.agreed is not None:
                    raise Interrupted(self.folder, done, interruptions.agreed)
        if self.state.step < self.total and self.state.step % self.training.log_every:
            self._log_losses()  # every task has stopped: the losses since the last line

    def finish(self, stopped: bool = False) -> None:
        """Give the model its best weights; those of the last step if only the start was evaluated."""
        self.driver.close()
        self.components.make_lasting(trained_tensors(self.model))
        if self.training.evaluate_every or not stopped:
            self.validation.best.restore(self.state)
        self.finished = True

    def since(self) -> dict[str, Any]:
        """The log fields of the steps since the last evaluation and of components; a new window begins."""
        fields = self.components.log_fields("evaluation", ["step", "tasks", "average", "window"])
        return {"window": self.records.window(self.state), **fields}

    def _next(self) -> PreparedStep:
        """Prepare the next step: the plan's examples, or those that the model is least certain of."""
        number = self.state.step
        self.components.before_step(number)  # first, because candidates are measured with this step's gates
        if self.chooser is None:
            return self.driver.take(self.plan, number)
        return self.driver.prepared(self.chooser.step(self.plan, number, self.driver.measured, self.say))

    def _step(self, prepared: PreparedStep) -> None:
        """Run one step: the gradients of all its micro-batches, then the update of every present owner."""
        step = prepared.step
        factor, peak = self.phases.lr(step.number)
        present = self.ids[np.unique(step.task[: step.real])].tolist()
        drifting = self._drifting() if self.training.absent == "drift" else []
        move = Move(factor, peak, present, drifting, self.components.task_factors())
        self.driver.run(prepared, move, self.say)

    def _count(self, step: Step) -> None:
        """Count a step that has been taken, and call the components."""
        losses = None
        if self.components.need_losses:
            step_losses = self.driver.losses()
            self.records.lost(step_losses)
            losses = self.processes.sum_array(step_losses.weighted)
        share = None if self.plan.chooses else self.plan.share_at(step.number)
        self.records.add(self.state, step, share, self.plan.mixed)
        self.state.step += 1
        self.components.after_step(StepDone(step, self.phases.lr(step.number)[0], losses))

    def _drifting(self) -> list[int]:
        """The model's ids of the tasks that move without an example: all tasks that have not stopped."""
        stopped = [task for at, task in self.state.stops if at <= self.state.step]
        return np.delete(self.ids, stopped).tolist()

    def _new_optimizers(self) -> OwnerOptimizers:
        """New optimizers for the phase that begins."""
        optimizers = self.phases.optimizers(self.state.step)
        self.driver.begin(optimizers, self.phases.penalty(self.state.step))
        return optimizers

    def _next_phase(self) -> None:
        """Begin the second phase: gates are decided, weights are kept, optimizers are new."""
        self.records.lost(self._waited_for())
        self.driver.close()
        self.components.at_phase(resumed=False)
        self.model.release()  # captured passes use the old gates
        self.model.zero_grad()
        self.optimizers = self._new_optimizers()
        self.driver.gradients.arrange()

    def _log_engine(self) -> None:
        """Log the engine's verification and failures."""
        events, self.driver.events = self.driver.events, []
        for name, facts in events:
            self.log.write(name, **facts)

    def _waited_for(self) -> TaskLosses:
        """The losses since the last call. A GPU still works then: waiting for it is time of the steps."""
        since = time.monotonic()
        losses = self.driver.losses()
        self.state.note_time(self._began, since, 0)
        return losses

    def _losses(self, done: int) -> dict[str, float] | None:
        """The losses to show after a step, if any; they are logged every `log_every` steps."""
        if done % self.training.log_every == 0 or done == self.total:
            return self._log_losses()
        if early(done):  # a first loss within seconds, whatever log_every is
            self.records.lost(self._waited_for())
            return self.records.losses_so_far(self.state)
        return None

    def _log_losses(self) -> dict[str, float]:
        """Log the mean loss of each task that had examples since the last line."""
        self.records.lost(self._waited_for())
        losses = self.records.mean_losses(self.state)
        line: dict[str, Any] = {"step": self.state.step, "loss": losses, "lr": self.optimizers.lr}
        line |= self.components.log_fields("step", [*line, "seconds", "step_seconds"])
        self.log.write("step", **line, **self.state.seconds_so_far())
        return losses

    def _evaluate(self) -> None:
        """Score the validation rows; save the weights if they are the best so far; stop tasks."""
        state = self.state
        self.records.lost(self._waited_for())  # a run that has diverged ends before it is evaluated
        # else the gates are not decided, or were decided just now
        counts = state.step > self.before or not self.before
        # at rest: the best weights must be saved unpatched, in full precision
        with self.driver.engine.at_rest(), self.components.around_evaluation():
            scores = self.validation.scores(state.step)
            if counts:
                self.validation.note(state, scores)
        self.log.write("evaluation", step=state.step, **scores, **self.since())
        shown = {name: shown_metric(*next(iter(m.items()))) for name, m in scores["tasks"].items()}
        self.progress.evaluated(state.step, scores["average"], shown)
        if counts and state.step < self.total:
            self.components.after_evaluation()
            if list(self.plan.stops) != list(state.stops):
                self.driver.drop_ahead()
                self.run_plan.follow(state.stops)

    def _checkpoint(self) -> None:
        self.records.lost(self._waited_for())
        self.records.sum_losses(self.state)
        with self.driver.engine.at_rest():
            # the last good checkpoint is not replaced by a bad one
            self.validation.check_weights(self.state.step)
        self.log.write("checkpoint", step=self.state.step)
        save_loop(self)
