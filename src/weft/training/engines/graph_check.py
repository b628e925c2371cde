"""Verification of captured passes: a replay of the graph against the same pass run eagerly, uncompiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from weft.acceleration.packed import views
from weft.training.engines.captured import INPUT, Captured
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
    microbatch: MicroBatch,
    step: int,
    count: int,
) -> None:
    """Verify the forward and backward pass of a step; gradients are compared before clipping.

    Args:
        engine: the engine that captured the pass.
        probe: the engine's probe.
        captured: the pass, which was captured just now.
        packed: the micro-batch in one buffer.
        microbatch: the same micro-batch.
        step: the number of the step.
        count: the number of the micro-batch in the step.
    """
    if not probe.verifier.affordable:
        probe.verifier.skip()
        return
    purpose = f"dropout {count}"

    def reading(losses: Tensor) -> Reading:
        return probe.reading(losses, microbatch.tasks, microbatch.weight, probe.norms())

    with probe.verifying():
        probe.check_patches(step, microbatch)
        with probe.verifier.timed(engine.device):
            with engine.trial(step):
                _put(captured, packed)
                engine.gradients.seed(step, purpose)
                captured.run()
                actual = reading(captured.values[0])
            with engine.trial(step), engine.patch_stack.uncompiled():
                engine.gradients.seed(step, purpose)
                expected = reading(_eager_values(captured))
        probe.verifier.check(shape_of(microbatch.batch), actual, expected)


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
    """Copy a batch into the buffer of a captured pass, with one position masked.

    Hugging Face leaves the mask out if nothing is padded, except in a graph: attention would run a different
    kernel, whose dropout draws different random numbers.
    """
    captured.memory.copy_(packed.memory)
    views(captured.memory, captured.form)[INPUT + "attention_mask"][0, -1] = 0


def _eager_values(captured: Captured) -> Tensor:
    """The values of the same pass over the same batch, [E], run eagerly."""
    values: list[Tensor] = []
    captured.eager(views(captured.memory, captured.form), values)
    return values[0]
