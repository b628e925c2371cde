"""Gives untrained heads the values of a probe before the first step (`heads.start: probe`)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data.batching.batch import class_weights
from weft.encoder.catalogue import RANDOM
from weft.evaluation.evaluate import fixed_rows
from weft.tasks.kinds import KINDS
from weft.training.head_start.features import head_features
from weft.training.head_start.fit import FEW, LinearFit, Probe, fit

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.heads import Head
    from weft.model.model import Model
    from weft.training.settings import Training

MOST = 1000
"""The number of training rows of a task that a probe reads at most."""
SHARE = 0.1
"""The part of a run's forward and backward passes that all probes together may cost."""
PASSES = 3
"""A training step costs about three forward passes over its rows: one forward, two backward."""


@dataclass(frozen=True)
class HeadStart:
    """What happened before the first step.

    Attributes:
        fits: the fitted map of each task that has one.
        kept: why the other tasks keep their initial heads, by task.
        seconds: the time it took.
    """

    fits: dict[str, LinearFit]
    kept: dict[str, str]
    seconds: float

    def facts(self) -> dict[str, Any]:
        """The fields of the log's line."""
        tasks = {name: {"rows": x.rows, "strength": x.strength} for name, x in self.fits.items()}
        return {"tasks": tasks, "kept": self.kept, "seconds": round(self.seconds, 2)}

    def line(self) -> str:
        """One line for the user."""
        if not self.fits:
            return f"no head starts from a probe: {_reasons(self.kept)}"
        rows = [linear.rows for linear in self.fits.values()]
        count = f"{min(rows):,}" if min(rows) == max(rows) else f"{min(rows):,} to {max(rows):,}"
        several = f"the heads of {len(rows)} tasks start from probes on {count} rows each"
        text = several if len(rows) > 1 else f"the head of one task starts from a probe on {count} rows"
        text += f" ({self.seconds:.1f} s)"
        return f"{text}; not those of {_reasons(self.kept)}" if self.kept else text


def probe_heads(
    model: Model, training: Training, names: Sequence[str], train: Mapping[str, Tokens]
) -> HeadStart:
    """Fit a probe for each task whose head is untrained and linear; the model does not change.

    Rows are chosen by the run's seed: at most 1,000 per task, and fewer in a short run, so that the forward
    passes of all probes are at most a tenth of the run's work. This rule counts rows and not seconds: the
    same run has the same start on every machine.

    Args:
        model: the model; it is put into eval mode.
        training: the settings of `train`.
        names: the tasks that train.
        train: the tokenized training split of each.
    """
    began = time.monotonic()
    fits: dict[str, LinearFit] = {}
    kept: dict[str, str] = {}
    open_names = []
    for name in names:
        why = _not_linear(model, name)
        if why is None:
            open_names.append(name)
        else:
            kept[name] = why
    limit = rows_per_task(training, len(open_names))
    moving = bool(training.steps) and features_train(model)
    for name in open_names:
        tokens, task = train[name], model.tasks[model.task_id(name)]
        which = fixed_rows(len(tokens), limit, training.seed, name)
        if len(which) < FEW:
            short = limit < min(FEW, len(tokens))
            kept[name] = f"the run is too short for {FEW} rows" if short else f"fewer than {FEW} rows"
            continue
        probe = cast(Probe, KINDS[task.kind].probe)
        features = head_features(model, name, tokens, which)
        targets = targets_of(model, name, tokens, which)
        weights = class_weights(tokens) if probe == "classes" else None
        around = _initial_weight(model, name) if moving else None
        linear = fit(probe, features, targets, task.size or 1, weights, around)
        if linear is None:
            kept[name] = "all rows have one label"
        else:
            fits[name] = linear
    return HeadStart(fits, kept, time.monotonic() - began)


@torch.no_grad()
def apply_probes(model: Model, start: HeadStart) -> None:
    """Write the fitted maps into the heads."""
    for name, linear in start.fits.items():
        head, slot = _head_and_slot(model, name)
        for parameter, value in (("weight", linear.weight), ("bias", linear.bias)):
            live = head.get_parameter(parameter)[slot]
            live.copy_(torch.from_numpy(value))


def features_train(model: Model) -> bool:
    """Whether training changes what heads read: the encoder, an adapter, or a task's pooler trains.

    If it does, a head that begins at nearly zero would hold back everything below it: probes are then
    regularized towards the initial weights (`weft.training.head_start.around`).
    """
    last_layers = {
        id(parameter)
        for head in model.heads.values()
        for name, parameter in head.named_parameters()
        if name in ("weight", "bias")
    }
    return any(p.requires_grad and id(p) not in last_layers for p in model.parameters())


def rows_per_task(training: Training, tasks: int) -> int:
    """Return how many rows of each task may be probed.

    1,000, or SHARE · PASSES · steps · batch_size / tasks if that is fewer; a run without steps has no limit
    to keep.
    """
    if not training.steps or not tasks:
        return MOST
    passes = SHARE * PASSES * training.steps * training.batch_size
    return min(MOST, int(passes / tasks))


def targets_of(model: Model, name: str, tokens: Tokens, which: Sequence[int]) -> NDArray[Any]:
    """Return the training targets of some examples: [n] label ids, or [n, C]."""
    task = model.tasks[model.task_id(name)]
    kind = KINDS[task.kind]()
    values = [kind.as_array(task.target(tokens.target(i)), task.size or 1) for i in which]
    stacked: NDArray[Any] = np.stack(values)
    return stacked if kind.probe == "classes" else stacked.reshape(len(which), -1)


def _head_and_slot(model: Model, name: str) -> tuple[Head, int]:
    number = model.task_id(name)
    head: Head = model.heads[model.tasks[number].head]  # type: ignore[assignment]
    return head, head.stacks["weight"].slots.of_task[number]


def _initial_weight(model: Model, name: str) -> NDArray[np.float64]:
    """The weight of a task's last layer as it is, [C, d']."""
    head, slot = _head_and_slot(model, name)
    return head.get_parameter("weight")[slot].detach().double().cpu().numpy()


def _not_linear(model: Model, name: str) -> str | None:
    """Return why a task's head does not start from a probe; None if it does."""
    if model.encoder_source.name.startswith(RANDOM):
        # features of all rows are nearly equal: a probe separates them by weights so large that dropout
        # alone makes a loss of ten times the initial one
        return "the encoder starts from random weights"
    number = model.task_id(name)
    task = model.tasks[number]
    head: Head = model.heads[task.head]  # type: ignore[assignment]
    if KINDS[task.kind].probe is None or head.reads == "cosine":
        return f"kind {task.kind}"
    if head.layers > 1:
        return f"{head.layers} layers"
    return None if head.is_untrained(number) else "already trained"


def _reasons(kept: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({why})" for name, why in kept.items())
