"""The loop: plan → batch → loss → owners, with evaluations and checkpoints between."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.data.cache import FORMAT
from weft.errors import RunFailed, WeftError
from weft.evaluation.evaluate import Scores, evaluate, fixed_examples, main_score
from weft.methods.ranked import l0_of
from weft.sampling.draws import draw_key
from weft.sampling.plan import Step
from weft.sparsity import in_words, sparsity
from weft.training import l0
from weft.training.batch import class_weights, make_batch
from weft.training.checkpoint import load_checkpoint, load_weights, read_state, save_checkpoint, save_weights
from weft.training.log import Log
from weft.training.owners import OwnerOptimizers
from weft.training.planning import plan_of
from weft.training.precision import precision
from weft.training.progress import Progress
from weft.training.schedule import lr_factor
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model

RANK = 0
"""This process among those that train together."""


@dataclass
class State:
    """What the loop carries from step to step besides weights and optimisers: all of it is in a checkpoint.

    Attributes:
        step: how many steps are done.
        best: the best score so far.
        best_step: the step after which it was found; its weights are in best-STEP.safetensors.
        losses: the sum of each task's example losses since the log's last line, [T].
        examples: how many examples these are, [T].
        seconds: the time taken, over all parts of an interrupted run.
        stops: (step, task) after which a task is drawn no more, in order; the plan follows from it.
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    losses: list[float] = field(default_factory=list)
    examples: list[float] = field(default_factory=list)
    seconds: float = 0.0
    stops: list[tuple[int, int]] = field(default_factory=list)


class Loop:
    """Trains a model by a plan.

    A model with L0 gates has two phases: first `l0.steps` steps in which gates are drawn and penalised, then,
    the gates decided, `train.steps` with optimisers and a schedule anew. Only the second has a best model.

    Args:
        model: the model, on its device.
        training: how to train; `lr` is given.
        train: the tokenised training rows of each task that trains, in their order.
        validation: the tokenised validation rows of each, by name; those of a further set as `TASK:SET`.
        folder: the run's folder, for checkpoints.
        tasks: the names of the tasks that train; by default all, in the order of their ids.
    """

    def __init__(
        self,
        model: Model,
        training: Training,
        train: list[Tokens],
        validation: Mapping[str, Tokens],
        folder: Path,
        tasks: Sequence[str] | None = None,
    ) -> None:
        self.model, self.training, self.train = model, training, train
        self.names = [task.name for task in model.tasks] if tasks is None else list(tasks)
        # the plan counts the tasks that train; the model counts all of its tasks
        self.ids = np.array([model.task_id(name) for name in self.names], np.int64)
        self.validation = dict(validation)
        self.checkpoints = folder / "checkpoints"
        lengths = [tokens.lengths for tokens in train]
        self.gates = l0.gates_of(model)
        self.l0 = l0_of(model.method) if self.gates else None
        if l0.decided(self.gates):
            raise WeftError(
                "the gates of this model are decided already: take them out and train what is left, with "
                "weft compact BUNDLE --out SMALL, or model.compact() in Python"
            )
        self.before = 0 if self.l0 is None else self.l0.steps
        self.total = self.before + training.steps
        sizes = [len(tokens) for tokens in train]
        self.plan = plan_of(training, self.names, sizes, lengths, self.before)
        keys = [tokens.key for tokens in (*train, *validation.values())]
        # what a resumed run must find unchanged: the order, every text and label, the encoder's weights
        self.data = {
            "tokens": FORMAT,
            "plan": self.plan.fingerprint(),
            "rows": keys,
            "encoder": model.source.sha256,
        }
        self.class_weights = [class_weights(tokens) for tokens in train]
        self.optimizers = self._new_optimizers()
        self.state = State(losses=[0.0] * len(train), examples=[0.0] * len(train))
        self.device = next(model.parameters()).device
        rows, seed = training.evaluate_rows, training.seed
        self.watched = {n: fixed_examples(t, rows, seed, n) for n, t in self.validation.items()}

    def resume(self, checkpoint: Path) -> dict[str, Any]:
        """Go on from a checkpoint; returns what it says of the run it is from."""
        if self.l0 is not None and read_state(checkpoint)["step"] >= self.before:
            l0.freeze(self.gates)
            self.optimizers = self._new_optimizers()
        said = load_checkpoint(checkpoint, self.model, self.optimizers)
        self.state = State(**said["loop"])
        return said

    def run(self, log: Log, progress: Progress) -> Scores:
        """Train to the end; the model then has the best weights, and the scores are over whole splits."""
        began = time.monotonic() - self.state.seconds
        settings = self.training
        while self.state.step < self.total:
            self.model.train()
            self._step(self.plan.step(self.state.step))
            self.state.step += 1
            self.state.seconds = time.monotonic() - began
            done, last = self.state.step, self.state.step == self.total
            losses = self._log_losses(log) if done % settings.log_every == 0 or last else None
            progress.step(done, losses)
            if self.l0 is not None and done == self.before:
                self._decide_gates(log, progress)
            if settings.evaluate_every and (done % settings.evaluate_every == 0 or last):
                self._evaluate(log, progress)
            if settings.checkpoint_every and done % settings.checkpoint_every == 0 and not last:
                self._checkpoint(log)
        if self.state.best_step is not None and self.state.best_step != self.total:
            load_weights(self._best_file(self.state.best_step), self.model)
        return self._evaluated(None if settings.last_evaluation == "whole" else self.watched)

    def _step(self, step: Step) -> None:
        """One step: the gradients of all its parts, then every present owner moves."""
        self.optimizers.zero_grad()
        if step.number < self.before:
            # one u a gate and step: for all of the step's parts, and in every process
            l0.draw(self.gates, step_seed(self.training.seed, step.number, 0, "gates"))
            l0.penalty(self.gates).backward()
        parts = np.array_split(np.arange(len(step.task)), self.training.accumulate)
        for number, part in enumerate(p for p in parts if len(p)):
            torch.manual_seed(step_seed(self.training.seed, step.number, RANK, f"dropout {number}"))
            self._backward(step, part)
        if self.training.clip is not None:
            # without the gates: that they are there must not change the weights' steps
            gates = {id(gate.get_parameter("alpha")) for gate in self.gates}
            trained = [p for p in self.model.parameters() if p.grad is not None and id(p) not in gates]
            torch.nn.utils.clip_grad_norm_(trained, self.training.clip, foreach=True)
        self.optimizers.set_lr(self._lr(step.number))
        if self.training.absent == "drift":
            self.optimizers.step(self.ids.tolist())
        else:
            self.optimizers.step(self.ids[np.unique(step.task[: step.real])].tolist())

    def _lr(self, step: int) -> float:
        """The learning rate of a step; each phase has a schedule of its own."""
        given = self.training
        peak = given.lr or 0.0
        if step >= self.before:
            return peak * lr_factor(step - self.before, given.steps, given.warmup, given.schedule)
        assert self.l0 is not None
        return (self.l0.lr or peak) * lr_factor(step, self.before, given.warmup, given.schedule)

    def _new_optimizers(self) -> OwnerOptimizers:
        """Fresh optimisers of what trains in this phase."""
        given = self.training
        gate_lr = None if self.l0 is None else self.l0.gate_lr
        return OwnerOptimizers(
            self.model, lr=given.lr or 0.0, weight_decay=given.weight_decay, gate_lr=gate_lr
        )

    def _decide_gates(self, log: Log, progress: Progress) -> None:
        """Between the phases: gates are opened or shut for good, the weights stay, the optimisers are new."""
        l0.decide(self.gates)
        self.model.zero_grad()
        self.optimizers = self._new_optimizers()
        told = sparsity(self.model)
        log.write("gates", step=self.state.step, **told)
        progress.say(f"gates decided after step {self.state.step}, kept: {in_words(told)}")

    def _backward(self, step: Step, part: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """The gradients of some of a step's examples, added to those before."""
        tasks = step.task[part].tolist()
        items = [(self.train[t], i) for t, i in zip(tasks, step.index[part].tolist(), strict=True)]
        batch = make_batch(self.model, items, self.ids[step.task[part]], self.device)
        weight = torch.from_numpy(step.weight[part] * self._label_weights(tasks, items)).to(self.device)
        with precision(self.training, self.device):
            output = self.model(**batch.inputs)
        losses = self.model.example_losses(output, batch.labels)
        (losses * weight).sum().backward()
        self._add_losses(step.number, losses.detach(), tasks, weight)

    def _label_weights(self, tasks: list[int], items: Sequence[tuple[Tokens, int]]) -> Any:
        """What each example's label weighs, [E]; 1 where its task weighs all alike."""
        found = np.ones(len(items), np.float32)
        for number, (t, (tokens, i)) in enumerate(zip(tasks, items, strict=True)):
            weights = self.class_weights[t]
            if weights is not None:
                labels: Any = tokens.labels
                found[number] = weights[labels[i]]
        return found

    def _add_losses(self, step: int, losses: Tensor, tasks: list[int], weight: Tensor) -> None:
        for loss, t, w in zip(losses.tolist(), tasks, weight.tolist(), strict=True):
            if w:
                if not math.isfinite(loss):
                    raise RunFailed(
                        f"step {step}: the loss of task {self.names[t]!r} is {loss}; the run diverged.\n"
                        f"  begin anew with train.lr below {self.training.lr}, or with train.clip set"
                    )
                self.state.losses[t] += loss
                self.state.examples[t] += 1

    def _log_losses(self, log: Log) -> dict[str, float]:
        """The mean loss of each task that had examples since the last line."""
        pairs = zip(self.names, self.state.losses, self.state.examples, strict=True)
        losses = {name: total / count for name, total, count in pairs if count}
        self.state.losses = [0.0] * len(self.names)
        self.state.examples = [0.0] * len(self.names)
        lr, seconds = self.optimizers.lr, round(self.state.seconds, 2)
        gates = {}
        if self.state.step < self.before:
            gates = {"gates_open": l0.expected_open(self.gates), "gates_kept": l0.would_keep(self.gates)}
        log.write("step", step=self.state.step, loss=losses, lr=lr, **gates, seconds=seconds)
        return losses

    def _evaluate(self, log: Log, progress: Progress) -> None:
        """Look at the watched rows; keep the weights if they are the best so far."""
        scores = self._evaluated(self.watched)
        log.write("evaluation", step=self.state.step, **scores)
        wanted = self.training.best
        score = scores["average"] if wanted == "average" else main_score(scores["tasks"][wanted])
        told = "  ".join(f"{name} {main_score(m):.3f}" for name, m in scores["tasks"].items())
        progress.score(scores["average"])
        progress.say(f"step {self.state.step}: average {scores['average']:.4f}  {told}")
        if self.state.step <= self.before:
            return  # gates are still being found, or have just been decided
        # a score that is no number is worse than any
        score = score if math.isfinite(score) else -math.inf
        if self.state.best is None or score > self.state.best:
            self.state.best, self.state.best_step = score, self.state.step
            save_weights(self._best_file(self.state.step), self.model)

    def _evaluated(self, rows: dict[str, list[int]] | None) -> Scores:
        # in float32 on any device: the loaded bundle must find the same numbers
        return evaluate(self.model, self.validation, rows)

    def _checkpoint(self, log: Log) -> None:
        log.write("checkpoint", step=self.state.step)
        said = {
            "loop": vars(self.state),
            "data": self.data,
            "log_bytes": log.size,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        save_checkpoint(self.checkpoints, self.state.step, self.model, self.optimizers, said)
        # older best weights are needed as long as an older checkpoint may be gone back to: no longer
        for file in self.checkpoints.glob("best-*.safetensors"):
            if file != self._best_file(self.state.best_step or 0):
                file.unlink()

    def _best_file(self, step: int) -> Path:
        return self.checkpoints / f"best-{step:08d}.safetensors"


def step_seed(seed: int, step: int, rank: int, purpose: str) -> int:
    """What torch is seeded with in a step: resumed or not, each step draws the same."""
    return int(draw_key(seed, purpose, step, rank)) >> 1
