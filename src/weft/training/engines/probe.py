"""The probe of an engine: it reads a batch's losses and gradients to verify them, without side effects."""

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
    """Verifies the batch shapes of one engine, each when it first occurs.

    Args:
        verifier: the verifier of the run.
        gradients: computes the gradients of a step.
        patch_stack: the patches of the model under the engine.

    Attributes:
        new_shape: whether a new shape has occurred since this was last set to false.
    """

    def __init__(self, verifier: Verifier, gradients: StepGradients, patch_stack: PatchStack) -> None:
        self.verifier, self.gradients, self.patch_stack = verifier, gradients, patch_stack
        self.new_shape = False
        self._model, self._device = gradients.model, gradients.device
        self._items = [item for item in owned(self._model) if item.trains]
        self._seen: set[Any] = set()
        self._patches_checked = False

    def is_new(self, form: Any) -> bool:
        """Whether a shape occurs for the first time; it is remembered.

        Args:
            form: identifies the shape.
        """
        if form in self._seen:
            return False
        self._seen.add(form)
        self.new_shape = True
        return True

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Inside, passes have no side effects; if one runs out of memory, its shape stays unverified."""
        try:
            with without_trace(self._model):
                yield
        except torch.OutOfMemoryError:
            self.verifier.skip()
        except torch._dynamo.exc.TorchDynamoException:  # the engine handles this
            raise
        except RuntimeError as why:  # the reference cannot run: only plain code can be trusted
            first = str(why).strip().splitlines()[0] if str(why).strip() else ""
            raise EngineFailed(f"it could not be verified: {type(why).__name__}: {first}") from why
        finally:
            if self._device.type == "cuda":
                torch.cuda.empty_cache()  # a graph's memory comes from a different pool

    def check_microbatch(self, step: int, count: int, microbatch: MicroBatch) -> None:
        """Verify the shape of a micro-batch: compiled against uncompiled, with the same dropout.

        Args:
            step: the number of the step.
            count: the number of the micro-batch in the step.
            microbatch: the micro-batch.
        """
        if not self.is_new(form_of(microbatch.batch)):
            return
        if not self.verifier.affordable:
            self.verifier.skip()
            return
        with self.verifying():
            self.check_patches(step, microbatch)
            actual = self.read(step, microbatch, f"dropout {count}")
            with self.verifier.timed(self._device), self.patch_stack.uncompiled():
                expected = self.read(step, microbatch, f"dropout {count}")
            self.verifier.check(shape_of(microbatch.batch), actual, expected)

    def verified_measure(self, batch: TrainingBatch, tasks: Ints, run: Callable[[], Tensor]) -> Tensor:
        """Run a pass that measures candidates, [E]; it is verified when its shape first occurs.

        Args:
            batch: the batch of the candidates.
            tasks: the plan's task of each, [E].
            run: the pass; it seeds itself.
        """
        if not self.is_new(("measured", form_of(batch))):
            return run()
        if not self.verifier.affordable:
            self.verifier.skip()
            return run()
        with self.verifying():
            actual = run()
            with self.verifier.timed(self._device), self.patch_stack.uncompiled():
                expected = run()
            self.check_measured(shape_of(batch), actual, expected, tasks)
        return run()

    def check_candidates(self, candidates: Candidates) -> None:
        """Compare the patched model with the plain one on some candidates, if that has not been done yet.

        Args:
            candidates: the candidates of a step; as many of them are used as a micro-batch has examples.
        """
        if self._patches_checked:
            return
        microbatches, training = self.gradients.microbatches, self.gradients.training
        count = len(candidates.task)
        some = np.linspace(0, count - 1, min(count, -(-training.batch_size // training.accumulate)))
        rows = some.astype(np.int64)
        weight = np.full(len(rows), 1 / len(rows), np.float32)
        # all blocks, although candidates may be measured by the lowest ones: a patch of any may be wrong
        with self._model.running_until(None), self.verifying(), torch.enable_grad():
            microbatch = microbatches.microbatch(candidates.task[rows], candidates.index[rows], weight)
            self.check_patches(candidates.number, microbatch)

    def check_measured(self, shape: tuple[int, int], actual: Tensor, expected: Tensor, tasks: Ints) -> None:
        """Compare measures of candidates, [E] each, without those of tasks that have no measure (nan)."""
        finite = expected[: len(tasks)].isfinite().cpu()
        names = [self.gradients.names[task] for task in tasks[finite.numpy()].tolist()]
        values = [x[: len(tasks)].detach().double().cpu()[finite] for x in (actual, expected)]
        self.verifier.check(shape, *(Reading(value, names) for value in values))

    def check_patches(self, step: int, microbatch: MicroBatch) -> None:
        """Once per engine: compare the patched model with the plain one, without dropout."""
        if self._patches_checked:
            return
        self._patches_checked = True
        purpose = "patches"
        with self.verifier.timed(self._device), without_dropout(self._model):
            with self.patch_stack.uncompiled():
                actual = self.read(step, microbatch, purpose)
            with self.patch_stack.suspended():
                expected = self.read(step, microbatch, purpose, trunk=False)

        def read_float32() -> Reading:
            plain = self.patch_stack.suspended()
            with self.verifier.timed(self._device), without_dropout(self._model), plain:
                return self.read(step, microbatch, purpose, trunk=False, autocast=False)

        in_float32 = read_float32 if self.verifier.bf16 else None
        self.verifier.check_patches(shape_of(microbatch.batch), actual, expected, in_float32)

    def read(
        self, step: int, microbatch: MicroBatch, purpose: str, *, autocast: bool = True, trunk: bool = True
    ) -> Reading:
        """Run a micro-batch forward and backward with the model as it is now; `p.grad` does not change.

        Args:
            step: the number of the step.
            microbatch: the micro-batch.
            purpose: the purpose that the pass is seeded with.
            autocast: whether it runs in the precision of training; else in float32.
            trunk: whether the trunk cache is used; else all blocks run.
        """
        gradients, model = self.gradients, self._model
        gradients.seed(step, purpose)
        model.train()
        batch, weight = microbatch.batch.to(self._device), microbatch.weight
        with precision(gradients.training, self._device) if autocast else nullcontext():
            inputs = {name: x for name, x in batch.inputs.items() if name != TRUNK_ROWS}
            output = model.run(
                **(gradients.microbatches.model_inputs(batch.inputs) if trunk else inputs),
                examples=batch.examples,
            )
        losses = model.example_losses(output, batch.labels)[: len(weight)]
        parameters = list(dict.fromkeys(item.parameter for item in self._items))
        loss = (losses * torch.from_numpy(weight).to(self._device)).sum()
        gradient = dict(
            zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True)
        )
        return self.reading(losses, microbatch.tasks, weight, owner_norms(self._items, gradient.get))

    def norms(self) -> dict[str, float]:
        """The norm of each owner's present gradient."""
        return owner_norms(self._items, lambda parameter: parameter.grad)

    def reading(
        self, losses: Tensor, tasks: NDArray[Any], weight: NDArray[Any], norms: dict[str, float]
    ) -> Reading:
        """The reading of the examples that count.

        Args:
            losses: the loss of each example, [E].
            tasks: the plan's task of each, [E].
            weight: the weight of each, [E]; examples of weight 0 do not count.
            norms: the norm of each owner's gradient.
        """
        counted = weight != 0
        names = [self.gradients.names[task] for task in tasks[counted].tolist()]
        return Reading(losses.detach().double().cpu()[torch.from_numpy(counted)], names, norms)


def shape_of(batch: TrainingBatch) -> tuple[int, int]:
    """The rows and tokens of a batch."""
    rows, length = batch.inputs["input_ids"].shape
    return rows, length


def form_of(batch: TrainingBatch) -> tuple[Any, ...]:
    """The names and shapes of all tensors of a batch."""
    tensors = (*batch.inputs.items(), *batch.labels.items())
    return (batch.examples, *((name, tuple(x.shape)) for name, x in tensors))
