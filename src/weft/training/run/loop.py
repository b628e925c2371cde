"""The loop: plan → batch → loss → owners, with evaluations and checkpoints between."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from weft.data.tokens.cache import FORMAT
from weft.evaluation.scores import Scores, main_score
from weft.model.accounting.sparsity import in_words, sparsity
from weft.sampling.plan.plan import Plan
from weft.tasks.kinds import KINDS
from weft.training.engines.engine import Move
from weft.training.optim import l0
from weft.training.optim.owners import OwnerOptimizers
from weft.training.optim.task_weights import TaskWeights
from weft.training.run.checkpoint import load_checkpoint, read_more, read_state, save_checkpoint
from weft.training.run.course import Course
from weft.training.run.log import Log
from weft.training.run.phases import Phases
from weft.training.run.plan import plan_of
from weft.training.run.progress import Progress
from weft.training.run.records import Records
from weft.training.run.state import State
from weft.training.run.usage import Usage
from weft.training.run.validation import Watch
from weft.training.settings import Training
from weft.training.step.driver import Driver
from weft.training.step.gradients import sharded
from weft.training.step.gradients import step_seed as step_seed  # those who ask for a step look here too
from weft.training.step.microbatches import PreparedStep
from weft.training.uncertainty import chooser_of
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model


class Loop:
    """Trains a model by a plan.

    A model with L0 gates has two phases: first `l0.steps` steps in which gates are drawn and penalised, then,
    the gates decided, `train.steps` with optimisers and a schedule anew. Only the second has a best model.

    Args:
        model: the model, on its device.
        training: how to train; `lr` is given.
        train: the tokenized training rows of each task that trains, in their order.
        validation: the tokenized validation rows of each, by name; those of a further set as `TASK:SET`.
        folder: the run's folder, for checkpoints.
        tasks: the names of the tasks that train; by default all, in the order of their ids.
        processes: those that train together; by default this one alone.
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
    ) -> None:
        self.model, self.training, self.train = model, training, train
        self.processes = processes or Processes()
        self.names = [task.name for task in model.tasks] if tasks is None else list(tasks)
        # the plan counts the tasks that train; the model counts all of its tasks
        self.ids = np.array([model.task_id(name) for name in self.names], np.int64)
        self.checkpoints = folder / "checkpoints"
        self.phases = Phases(model, training)
        self.gates, self.l0 = self.phases.gates, self.phases.l0
        self.before, self.total = self.phases.before, self.phases.total
        sizes = [len(tokens) for tokens in train]
        lengths = [tokens.lengths for tokens in train]
        self.course = Course(plan_of(training, self.names, sizes, lengths, self.before))
        keys = [tokens.key for tokens in (*train, *validation.values())]
        # what a resumed run must find unchanged: the order, every text and label, the encoder's weights
        self.data = {
            "tokens": FORMAT,
            "plan": self.plan.fingerprint(),
            "rows": keys,
            "encoder": model.encoder_source.sha256,
        }
        self.state = State.fresh(len(train))
        self.watch = Watch(model, training, validation, self.names, self.checkpoints, self.processes)
        sharded(model, training, self.processes)
        self.driver = Driver(model, training, train, self.names, self.ids, self.plan, self.processes)
        self.chooser = chooser_of(model, self.names, sizes, self.plan)
        self.usage = Usage(self.names, sizes, training.starved, max(1, round(self.plan.epoch().steps)))
        self.records = Records(self.names, self.usage, self.processes)
        squared = [KINDS[model.tasks[i].kind].squared for i in self.ids.tolist()]
        # a log has to move by about 1, whatever small rate suits an encoder
        rate = max(training.lr or 0.0, 1e-3)
        self.task_weights = TaskWeights(training.task_weights, self.names, squared, rate)
        self.optimizers = self._new_optimizers()

    def resume(self, checkpoint: Path) -> dict[str, Any]:
        """Go on from a checkpoint; returns what it says of the run it is from."""
        self.state = State.read(read_state(checkpoint)["loop"], len(self.names))
        if self.l0 is not None and self.state.step >= self.before:
            l0.freeze(self.gates)
            self.optimizers = self._new_optimizers()
            self.driver.gradients.arrange()
        said = load_checkpoint(checkpoint, self.model, self.optimizers)
        self.course.follow(self.state.stops)
        parts = self.state.parts
        if "usage" in parts:
            self.usage.load(read_more(checkpoint), parts["usage"])
        else:  # a checkpoint from before it was counted
            self.usage.begin(self.state.step)
        if "task_weights" in parts:
            self.task_weights.load(parts["task_weights"])
        if self.driver.gradients.merged is not None and "conflict" in parts:
            self.driver.gradients.merged.load(parts["conflict"])
        return said

    @property
    def plan(self) -> Plan:
        """Which examples the steps from here on train on."""
        return self.course.plan

    @property
    def ended(self) -> bool:
        """Whether no step is left: all are done, or every task has stopped."""
        return self.state.step >= self.total or self.course.over(self.state.stops)

    def run(self, log: Log, progress: Progress) -> Scores:
        """Train to the end; the model then has the best weights, and the scores are over whole splits."""
        began = time.monotonic() - self.state.seconds
        settings = self.training
        while not self.ended:
            prepared = self._next(progress)
            step = prepared.step
            self._step(prepared, progress)
            self._log_engine(log)
            share = None if self.plan.chooses else self.plan.share_at(step.number)
            for warning in self.records.add(self.state, step, share, self.plan.mixed):
                progress.say(f"warning: {warning}")
            if self.plan.chooses:  # it cannot be found again from the plan alone
                task, index = step.task[: step.real].tolist(), step.index[: step.real].tolist()
                log.write("chosen", step=step.number, task=task, index=index)
            self.state.step += 1
            self.state.seconds = time.monotonic() - began
            done, last = self.state.step, self.state.step == self.total
            losses = self._log_losses(log) if done % settings.log_every == 0 or last else None
            progress.step(done, losses)
            if self.l0 is not None and done == self.before:
                self._decide_gates(log, progress)
            if settings.evaluate_every and (done % settings.evaluate_every == 0 or last):
                self._evaluate(log, progress)
            if settings.checkpoint_every and done % settings.checkpoint_every == 0 and not self.ended:
                self._checkpoint(log)
        if self.state.step < self.total and self.state.step % settings.log_every:
            self._log_losses(log)  # every task has stopped: what came since the last line
        self.driver.close()
        self.watch.best.restore(self.state)
        return self.watch.scores(whole=settings.last_evaluation == "whole")

    def since(self) -> dict[str, Any]:
        """What is told of the steps since the last evaluation, and of the data used; a new window begins."""
        told: dict[str, Any] = {"window": self.records.window(self.state), "usage": self.usage.report()}
        if self.driver.gradients.merged is not None:
            told["conflict"] = self.driver.gradients.merged.telemetry.window()
        return told

    def _next(self, progress: Progress) -> PreparedStep:
        """The examples of the next step: the plan's, or those that the model is most unsure of."""
        number = self.state.step
        if self.chooser is None:
            return self.driver.take(self.plan, number)
        self.phases.draw_gates(number)  # candidates are seen through the gates of their own step
        candidates = self.plan.candidates(number)
        settings = self.chooser.settings
        found = self.driver.measured(candidates, self.chooser.measures, settings.dropout, progress.say)
        places = self.chooser.places(found, candidates.task, self.training.batch_size)
        return self.driver.prepared(self.plan.chosen(candidates, places))

    def _step(self, prepared: PreparedStep, progress: Progress) -> None:
        """One step: the gradients of all its parts, then every present owner moves."""
        step = prepared.step
        self.phases.draw_gates(step.number)
        factor, peak = self.phases.lr(step.number)
        present = self.ids[np.unique(step.task[: step.real])].tolist()
        drifting = self._drifting() if self.training.absent == "drift" else []
        move = Move(factor, peak, present, drifting, self.task_weights.factors())
        self.driver.run(prepared, move, progress.say)
        if self.task_weights.learned:
            losses = self.driver.losses()
            self.records.lost(losses)
            mass = np.bincount(step.task, step.weight, len(self.names))
            self.task_weights.update(self.processes.sum_array(losses.part), mass, factor)

    def _drifting(self) -> list[int]:
        """The model's ids of the tasks that move on without an example: all that may still be drawn."""
        gone = [task for at, task in self.state.stops if at <= self.state.step]
        return np.delete(self.ids, gone).tolist()

    def _new_optimizers(self) -> OwnerOptimizers:
        """Fresh optimisers of what trains in this phase, which begins."""
        optimizers = self.phases.optimizers(self.state.step)
        self.driver.begin(optimizers, self.phases.penalty(self.state.step))
        return optimizers

    def _decide_gates(self, log: Log, progress: Progress) -> None:
        """Between the phases: gates are opened or shut for good, the weights stay, the optimisers are new."""
        self.records.lost(self.driver.losses())
        self.driver.close()
        l0.decide(self.gates)
        self.model.release()  # captured passes hold the gates as they were
        self.model.zero_grad()
        self.optimizers = self._new_optimizers()
        self.driver.gradients.arrange()
        told = sparsity(self.model)
        log.write("gates", step=self.state.step, **told)
        progress.say(f"gates decided after step {self.state.step}, kept: {in_words(told)}")

    def _log_engine(self, log: Log) -> None:
        """Lines for what was verified of the engine, and for its failure."""
        events, self.driver.events = self.driver.events, []
        for name, facts in events:
            log.write(name, **facts)

    def _log_losses(self, log: Log) -> dict[str, float]:
        """A line of the log: the mean loss of each task that had examples since the last."""
        self.records.lost(self.driver.losses())
        losses = self.records.mean_losses(self.state)
        more: dict[str, Any] = {}
        if self.state.step < self.before:
            more = {"gates_open": l0.expected_open(self.gates), "gates_kept": l0.would_keep(self.gates)}
        if self.task_weights.learned:
            more["task_weights"] = self.task_weights.report()
        seconds = round(self.state.seconds, 2)
        log.write("step", step=self.state.step, loss=losses, lr=self.optimizers.lr, **more, seconds=seconds)
        return losses

    def _evaluate(self, log: Log, progress: Progress) -> None:
        """Look at the watched rows; keep the weights if they are the best so far; stop whoever is done."""
        self.records.lost(self.driver.losses())  # a run that has diverged ends before it is judged
        with self.driver.engine.at_rest():
            scores = self.watch.scores()
        more = self.since()
        log.write("evaluation", step=self.state.step, **scores, **more)
        told = "  ".join(f"{name} {main_score(m):.3f}" for name, m in scores["tasks"].items())
        progress.score(scores["average"])
        progress.say(f"step {self.state.step}: average {scores['average']:.4f}  {told}")
        if self.state.step <= self.before:
            return  # gates are still being found, or have just been decided
        with self.driver.engine.at_rest():  # the best weights are kept as a file is: none of them rounded
            self.watch.note(self.state, scores, more["window"]["draws"])
        if self.state.step < self.total:
            self._stop_tasks(log, progress)

    def _stop_tasks(self, log: Log, progress: Progress) -> None:
        """Take out of the sampler whoever has got no better for so many evaluations."""
        state = self.state
        steps = state.step - self.before
        for task in self.watch.tired(state, steps):
            name, own = self.names[task], state.tasks[task]
            at = self.plan.stop_at(state.step)
            state.stops.append((at, task))
            log.write("stop", step=state.step, task=name, at=at, best=own.best, best_step=own.best_step)
            when = "now" if at == state.step else f"step {at}, when the window of sorted examples ends,"
            progress.say(f"{name} is no better since step {own.best_step}: from {when} on it is not drawn")
            self.usage.stopped(task)
        if list(self.plan.stops) != list(state.stops):
            self.driver.drop_ahead()
            self.course.follow(state.stops)

    def _checkpoint(self, log: Log) -> None:
        self.records.lost(self.driver.losses())
        self.records.sum_losses(self.state)
        parts = {"usage": self.usage.state(), "task_weights": self.task_weights.state()}
        if self.driver.gradients.merged is not None:
            parts["conflict"] = self.driver.gradients.merged.state()
        self.state.parts = parts
        log.write("checkpoint", step=self.state.step)
        said = {
            "loop": asdict(self.state),
            "data": self.data,
            "log_bytes": log.size,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "processes": self.processes.world,
        }
        more = self.usage.tensors()
        with self.driver.engine.at_rest():
            save_checkpoint(
                self.checkpoints, self.state.step, self.model, self.optimizers, said, more, self.processes
            )
        if self.processes.is_main:
            self.watch.best.sweep(self.state)
