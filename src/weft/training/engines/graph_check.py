"""Verifying captured passes: a replay of the graph against the same pass, uncaptured and uncompiled."""

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
    part: MicroBatch,
    step: int,
    count: int,
) -> None:
    """Verify the pass of a step, forward and backward; the gradients are those before clipping.

    Args:
        engine: which has captured it.
        probe: of the engine.
        captured: the pass, captured just now.
        packed: the part as one piece of memory.
        part: the same part.
        step: the number of the step.
        count: the number of the part in it.
    """
    if not probe.verifier.affordable:
        probe.verifier.skip()
        return
    purpose = f"dropout {count}"

    def reading(losses: Tensor) -> Reading:
        return probe.reading(losses, part.tasks, part.weight, probe.norms())

    with probe.verifying():
        probe.check_patches(step, part)
        with probe.verifier.timed(engine.device):
            with engine.trial(step):
                _put(captured, packed)
                engine.gradients.seed(step, purpose)
                captured.run()
                found = reading(captured.found[0])
            with engine.trial(step), engine.patch_stack.uncompiled():
                engine.gradients.seed(step, purpose)
                expected = reading(_uncaptured(captured))
        probe.verifier.check(shape_of(part.batch), found, expected)


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
        engine: which has captured it.
        probe: of the engine.
        captured: the pass, captured just now.
        packed: the candidates as one piece of memory.
        tasks: the plan's task of each, [E].
        step: the number of the step.
        purpose: what the pass is seeded for.
    """
    if not probe.verifier.affordable:
        probe.verifier.skip()
        return
    with probe.verifying(), engine.trial(step):
        with probe.verifier.timed(engine.device):
            _put(captured, packed)
            engine.gradients.seed(step, purpose)
            captured.run()
            found = captured.found[0].clone()
            with engine.patch_stack.uncompiled():
                engine.gradients.seed(step, purpose)
                expected = _uncaptured(captured)
        rows, length = views(captured.memory, captured.form)[INPUT + "input_ids"].shape
        probe.check_measured((rows, length), found, expected, tasks)


def _put(captured: Captured, packed: Packed) -> None:
    """Put a batch into the memory of a captured pass, with one place of it masked.

    Hugging Face leaves the mask out where nothing is padded, except in a graph: attention would run by
    another kernel, whose dropout draws other numbers.
    """
    captured.memory.copy_(packed.memory)
    views(captured.memory, captured.form)[INPUT + "attention_mask"][0, -1] = 0


def _uncaptured(captured: Captured) -> Tensor:
    """What the same pass over the same batch finds of each example, [E], run line by line."""
    found: list[Tensor] = []
    captured.written(views(captured.memory, captured.form), found)
    return found[0]
