"""Verification of captured passes: a replay of the graph against the same pass run eagerly, uncompiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from weft.acceleration.packed import views
from weft.training.engines.captured import INPUT, Captured, mask_one
from weft.training.engines.probe import Probe, shape_of
from weft.training.engines.verify import Reading
from weft.training.step.microbatches import MicroBatch, Packed
from weft.utils.counter_rng import Ints

if TYPE_CHECKING:
    from weft.training.engines.graph import GraphEngine


def check_capture(
    engine: GraphEngine,
    probe: Probe,
    captured: Captured,
    packed: Packed,
    microbatches: Sequence[MicroBatch],
    step: int,
    purpose: str,
    mixed: MicroBatch | None = None,
) -> None:
    """Verify the forward and backward pass of a step; gradients are compared before clipping.

    Args:
        engine: the engine that captured the pass.
        probe: the engine's probe.
        captured: the pass, which was captured just now.
        packed: the micro-batches in one buffer.
        microbatches: the same micro-batches: one, or several of one shape that run side by side.
        step: the number of the step.
        purpose: the purpose that the pass is seeded with.
        mixed: a micro-batch of all tasks, on which the patched model is compared with the plain one; None:
            the first micro-batch.
    """
    if not probe.verifier.affordable:
        probe.verifier.skip()
        return
    tasks = np.concatenate([microbatch.tasks for microbatch in microbatches])
    weight = np.concatenate([microbatch.weight for microbatch in microbatches])

    def reading(losses: Tensor) -> Reading:
        return probe.reading(losses, tasks, weight, engine.norms(probe, microbatches))

    with probe.verifying():
        probe.check_patches(step, microbatches[0] if mixed is None else mixed)
        with probe.verifier.timed(engine.device):
            with engine.trial(step):
                _put(captured, packed)
                engine.gradients.seed(step, purpose)
                captured.run()
                actual = reading(captured.values[0])
            with engine.trial(step), engine.patch_stack.uncompiled():
                engine.gradients.seed(step, purpose)
                expected = reading(_eager_values(captured))
        rows, length = shape_of(microbatches[0].batch)
        probe.verifier.check((len(microbatches) * rows, length), actual, expected)


def check_measure(
    engine: GraphEngine,
    probe: Probe,
    captured: Captured,
    packed: Packed,
    tasks: Ints,
    step: int,
    purpose: str,
) -> None:
    """Verify a pass that measures candidates; see `check_capture`.

    Args:
        engine: the engine that captured the pass.
        probe: the engine's probe.
        captured: the pass, which was captured just now.
        packed: the candidates in one buffer.
        tasks: the plan's task of each, [E].
        step: the number of the step.
        purpose: the purpose that the pass is seeded with.
    """
    if not probe.verifier.affordable:
        probe.verifier.skip()
        return
    with probe.verifying(), engine.trial(step):
        with probe.verifier.timed(engine.device):
            _put(captured, packed)
            engine.gradients.seed(step, purpose)
            captured.run()
            actual = captured.values[0].clone()
            with engine.patch_stack.uncompiled():
                engine.gradients.seed(step, purpose)
                expected = _eager_values(captured)
        rows, length = views(captured.memory, captured.form)[INPUT + "input_ids"].shape
        probe.check_measured((rows, length), actual, expected, tasks)


def _put(captured: Captured, packed: Packed) -> None:
    """Copy a batch into the buffer of a captured pass, with one position masked (see `mask_one`)."""
    captured.memory.copy_(packed.memory)
    mask_one(views(captured.memory, captured.form))


def _eager_values(captured: Captured) -> Tensor:
    """The values of the same pass over the same batch, [E], run eagerly."""
    values: list[Tensor] = []
    captured.eager(views(captured.memory, captured.form), values)
    return values[0]
