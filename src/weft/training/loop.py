"""The loop: plan → batch → loss → owners, with evaluations and checkpoints between."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.data.collate import collate
from weft.errors import RunFailed
from weft.evaluation.evaluate import Scores, evaluate, fixed_rows, main_score
from weft.sampling.draws import draw_key
from weft.sampling.plan import Step
from weft.training.checkpoint import load_checkpoint, load_weights, save_checkpoint, save_weights
from weft.training.log import Log
from weft.training.owners import OwnerOptimizers
from weft.training.planning import plan_of
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

    Args:
        model: the model, on its device.
        training: how to train; `lr` is given.
        train: the tokenised training rows of each task, in the order of the task ids.
        validation: the same of the validation rows.
        folder: the run's folder, for checkpoints.
    """

    def __init__(
        self, model: Model, training: Training, train: list[Tokens], validation: list[Tokens], folder: Path
    ) -> None:
        self.model, self.training, self.train = model, training, train
        self.names = [task.name for task in model.tasks]
        self.validation = dict(zip(self.names, validation, strict=True))
        self.checkpoints = folder / "checkpoints"
        lengths = [tokens.lengths for tokens in train]
        self.plan = plan_of(training, self.names, [len(tokens) for tokens in train], lengths)
        keys = [tokens.key for tokens in (*train, *validation)]
        # what a resumed run must find unchanged: the order, every text and label, the encoder's weights
        self.data = {"plan": self.plan.fingerprint(), "rows": keys, "encoder": model.source.sha256}
        self.optimizers = OwnerOptimizers(model, lr=training.lr or 0.0, weight_decay=training.weight_decay)
        self.state = State(losses=[0.0] * len(train), examples=[0.0] * len(train))
        self.device = next(model.parameters()).device
        rows, seed = training.evaluate_rows, training.seed
        self.watched = {n: fixed_rows(len(t), rows, seed, n) for n, t in self.validation.items()}

    def resume(self, checkpoint: Path) -> dict[str, Any]:
        """Go on from a checkpoint; returns what it says of the run it is from."""
        said = load_checkpoint(checkpoint, self.model, self.optimizers)
        self.state = State(**said["loop"])
        return said

    def run(self, log: Log, progress: Progress) -> Scores:
        """Train to the end; the model then has the best weights, and the scores are over whole splits."""
        began = time.monotonic() - self.state.seconds
        settings = self.training
        while self.state.step < settings.steps:
            self.model.train()
            self._step(self.plan.step(self.state.step))
            self.state.step += 1
            self.state.seconds = time.monotonic() - began
            done, last = self.state.step, self.state.step == settings.steps
            losses = self._log_losses(log) if done % settings.log_every == 0 or last else None
            progress.step(done, losses)
            if settings.evaluate_every and (done % settings.evaluate_every == 0 or last):
                self._evaluate(log, progress)
            if settings.checkpoint_every and done % settings.checkpoint_every == 0 and not last:
                self._checkpoint(log)
        if self.state.best_step is not None and self.state.best_step != settings.steps:
            load_weights(self._best_file(self.state.best_step), self.model)
        return self._evaluated(None)

    def _step(self, step: Step) -> None:
        """One step: the gradients of all its parts, then every present owner moves."""
        self.optimizers.zero_grad()
        parts = np.array_split(np.arange(len(step.task)), self.training.accumulate)
        for number, part in enumerate(p for p in parts if len(p)):
            torch.manual_seed(step_seed(self.training.seed, step.number, RANK, f"dropout {number}"))
            self._backward(step, part)
        if self.training.clip is not None:
            trained = [p for p in self.model.parameters() if p.grad is not None]
            torch.nn.utils.clip_grad_norm_(trained, self.training.clip, foreach=True)
        factor = lr_factor(step.number, self.training.steps, self.training.warmup, self.training.schedule)
        self.optimizers.set_lr((self.training.lr or 0.0) * factor)
        if self.training.absent == "drift":
            self.optimizers.step(range(len(self.names)))
        else:
            self.optimizers.step(np.unique(step.task[: step.real]).tolist())

    def _backward(self, step: Step, part: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """The gradients of some of a step's examples, added to those before."""
        tasks = step.task[part].tolist()
        items = [(self.train[t], i) for t, i in zip(tasks, step.index[part].tolist(), strict=True)]
        task = torch.from_numpy(step.task[part])  # on the host, where the model can see that all are one
        weight = torch.from_numpy(step.weight[part]).to(self.device)
        values: list[Any] = [tokens.labels[i] for tokens, i in items]
        labels = {k: v.to(self.device) for k, v in self.model.collate_labels(values, task).items()}
        inputs = {k: v.to(self.device) for k, v in collate(items, self.model.pad_id).items()}
        with self._precision():
            output = self.model(**inputs, task=task)
        losses = self.model.example_losses(output, labels)
        (losses * weight).sum().backward()
        self._add_losses(step.number, losses.detach(), task, weight)

    def _precision(self) -> AbstractContextManager[object]:
        wanted = self.training.precision
        cuda = self.device.type == "cuda"
        if wanted == "bf16" or (wanted == "auto" and cuda and torch.cuda.is_bf16_supported()):
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def _add_losses(self, step: int, losses: Tensor, task: Tensor, weight: Tensor) -> None:
        for loss, t, w in zip(losses.tolist(), task.tolist(), weight.tolist(), strict=True):
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
        lr = self.optimizers.lr
        log.write("step", step=self.state.step, loss=losses, lr=lr, seconds=round(self.state.seconds, 2))
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
