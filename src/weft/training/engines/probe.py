"""Reading a batch's losses and gradients off a model in training, without touching the training itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch._dynamo.exc

from weft.acceleration.patch import PatchStack
from weft.data.batching.batch import TrainingBatch
from weft.model.ownership import owned
from weft.training.engines.engine import EngineFailed
from weft.training.engines.quiet import without_dropout, without_trace
from weft.training.engines.verifier import Verifier
from weft.training.engines.verify import Reading, owner_norms
from weft.training.optim.precision import precision
from weft.training.step.gradients import StepGradients
from weft.training.step.microbatches import TRUNK_ROWS, MicroBatch
from weft.utils.counter_rng import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.sampling.plan.plan import Candidates


class Probe:
    """Verifies the shapes of one engine, each when it first comes.

    Args:
        verifier: of the run.
        gradients: what computes the gradients of a step.
        patch_stack: what the model wears under the engine.

    Attributes:
        met: whether a new shape has come since this was last set to false.
    """

    def __init__(self, verifier: Verifier, gradients: StepGradients, patch_stack: PatchStack) -> None:
        self.verifier, self.gradients, self.patch_stack = verifier, gradients, patch_stack
        self.met = False
        self._model, self._device = gradients.model, gradients.device
        self._items = [item for item in owned(self._model) if item.trains]
        self._seen: set[Any] = set()
        self._patches = False  # whether they have been compared

    def is_new(self, form: Any) -> bool:
        """Whether a shape has not come before; it has from now on.

        Args:
            form: what tells shapes apart.
        """
        if form in self._seen:
            return False
        self._seen.add(form)
        self.met = True
        return True

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Inside, passes leave no trace; one that finds no memory leaves its shape unverified."""
        try:
            with without_trace(self._model):
                yield
        except torch.OutOfMemoryError:
            self.verifier.skip()
        except torch._dynamo.exc.TorchDynamoException:  # the engine's own failure
            raise
        except RuntimeError as why:  # the reference cannot run: there is nothing to rely on but plain code
            first = str(why).strip().splitlines()[0] if str(why).strip() else ""
            raise EngineFailed(f"it could not be verified: {type(why).__name__}: {first}") from why
        finally:
            if self._device.type == "cuda":
                torch.cuda.empty_cache()  # a graph's memory comes from another pool

    def check_part(self, step: int, count: int, part: MicroBatch) -> None:
        """Verify the shape of a part: compiled against uncompiled, under the same dropout.

        Args:
            step: the number of the step.
            count: the number of the part in it.
            part: its examples.
        """
        if not self.is_new(form_of(part.batch)):
            return
        if not self.verifier.affordable:
            self.verifier.skip()
            return
        with self.verifying():
            self.check_patches(step, part)
            found = self.read(step, part, f"dropout {count}")
            with self.verifier.timed(self._device), self.patch_stack.uncompiled():
                expected = self.read(step, part, f"dropout {count}")
            self.verifier.check(shape_of(part.batch), found, expected)

    def verified_measure(self, batch: TrainingBatch, tasks: Ints, run: Callable[[], Tensor]) -> Tensor:
        """What a pass measures of candidates, [E]; when its shape first comes, it is verified.

        Args:
            batch: of the candidates.
            tasks: the plan's task of each, [E].
            run: the pass; it seeds itself.
        """
        if not self.is_new(("measured", form_of(batch))):
            return run()
        if not self.verifier.affordable:
            self.verifier.skip()
            return run()
        with self.verifying():
            found = run()
            with self.verifier.timed(self._device), self.patch_stack.uncompiled():
                expected = run()
            self.check_measured(shape_of(batch), found, expected, tasks)
        return run()

    def check_candidates(self, candidates: Candidates) -> None:
        """Compare the patched model with the plain one on some candidates, if that has not been done yet.

        Args:
            candidates: of a step; as many of them as a step trains on are taken.
        """
        if self._patches:
            return
        parts, training = self.gradients.parts, self.gradients.training
        count = len(candidates.task)
        some = np.linspace(0, count - 1, min(count, -(-training.batch_size // training.accumulate)))
        places = some.astype(np.int64)
        weight = np.full(len(places), 1 / len(places), np.float32)
        with self.verifying(), torch.enable_grad():
            part = parts.part(candidates.task[places], candidates.index[places], weight)
            self.check_patches(candidates.number, part)

    def check_measured(self, shape: tuple[int, int], found: Tensor, expected: Tensor, tasks: Ints) -> None:
        """Compare what was measured of candidates, [E] each; tasks without a measure have no number."""
        there = expected[: len(tasks)].isfinite().cpu()
        names = [self.gradients.names[task] for task in tasks[there.numpy()].tolist()]
        values = [x[: len(tasks)].detach().double().cpu()[there] for x in (found, expected)]
        self.verifier.check(shape, *(Reading(value, names) for value in values))

    def check_patches(self, step: int, part: MicroBatch) -> None:
        """Once: the patched model against the plain one, without dropout."""
        if self._patches:
            return
        self._patches = True
        purpose = "patches"
        with self.verifier.timed(self._device), without_dropout(self._model):
            with self.patch_stack.uncompiled():
                found = self.read(step, part, purpose)
            with self.patch_stack.suspended():
                expected = self.read(step, part, purpose, trunk=False)

        def whole() -> Reading:
            plain = self.patch_stack.suspended()
            with self.verifier.timed(self._device), without_dropout(self._model), plain:
                return self.read(step, part, purpose, trunk=False, autocast=False)

        in_float32 = whole if self.verifier.bf16 else None
        self.verifier.check_patches(shape_of(part.batch), found, expected, in_float32)

    def read(
        self, step: int, part: MicroBatch, purpose: str, *, autocast: bool = True, trunk: bool = True
    ) -> Reading:
        """A pass over a part, forward and backward, by the model as it is now; gradients stay as they are.

        Args:
            step: the number of the step.
            part: its examples.
            purpose: what the pass is seeded for.
            autocast: whether it runs in the precision of training; else in float32.
            trunk: whether what is kept of the trunk is used; else all blocks run.
        """
        gradients, model = self.gradients, self._model
        gradients.seed(step, purpose)
        model.train()
        batch = part.batch.to(self._device)
        with precision(gradients.training, self._device) if autocast else nullcontext():
            inputs = {name: x for name, x in batch.inputs.items() if name != TRUNK_ROWS}
            output = model.run(
                **(gradients.parts.given(batch.inputs) if trunk else inputs), examples=batch.examples
            )
        losses = model.example_losses(output, batch.labels)[: len(part.weight)]
        parameters = list(dict.fromkeys(item.parameter for item in self._items))
        loss = (losses * torch.from_numpy(part.weight).to(self._device)).sum()
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        gradient = dict(zip(parameters, found, strict=True))
        return self.reading(losses, part.tasks, part.weight, owner_norms(self._items, gradient.get))

    def norms(self) -> dict[str, float]:
        """The norm of each owner's gradient as it is now."""
        return owner_norms(self._items, lambda parameter: parameter.grad)

    def reading(
        self, losses: Tensor, tasks: NDArray[Any], weight: NDArray[Any], norms: dict[str, float]
    ) -> Reading:
        """What was found, of the examples that count.

        Args:
            losses: of each example, [E].
            tasks: the plan's task of each, [E].
            weight: what each weighs, [E]; those of weight 0 do not count.
            norms: of each owner's gradient.
        """
        counted = weight != 0
        names = [self.gradients.names[task] for task in tasks[counted].tolist()]
        return Reading(losses.detach().double().cpu()[torch.from_numpy(counted)], names, norms)


def shape_of(batch: TrainingBatch) -> tuple[int, int]:
    """The rows and tokens of a batch."""
    rows, length = batch.inputs["input_ids"].shape
    return rows, length


def form_of(batch: TrainingBatch) -> tuple[Any, ...]:
    """The names and shapes of all that a batch has."""
    tensors = (*batch.inputs.items(), *batch.labels.items())
    return (batch.examples, *((name, tuple(x.shape)) for name, x in tensors))
