"""The engine `graph` with `train.conflict`: one captured pass per task, on the task's own rows.

A step replays one graph per group of tasks with batches of one shape. The tasks of a group run side by side
in it: a pass over few rows leaves most of a GPU idle. Which tasks they are is data, so one graph serves every
group of its shape. Between the passes and the captured update, the host computes the weights of the tasks'
gradients from their products; only for these it waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.acceleration.patch import PatchStack
from weft.training.conflict.conflict import Merged
from weft.training.conflict.flat import FlatGradients
from weft.training.engines.captured import Captured, lanes_of, side_by_side, tensors_of
from weft.training.engines.engine import Move
from weft.training.engines.graph import GraphEngine
from weft.training.engines.graph_check import check_capture
from weft.training.engines.verifier import Verifier
from weft.training.engines.verify import owner_norms
from weft.training.step import by_task
from weft.training.step.gradients import Penalty, StepGradients, step_seed
from weft.training.step.microbatches import MicroBatch, Packed, PreparedStep, TaskGroup

if TYPE_CHECKING:
    from weft.training.conflict.gradients import TaskGradients
    from weft.training.engines.probe import Probe
    from weft.training.optim.owners import OwnerOptimizers


class GraphByTask(GraphEngine):
    """Captured steps whose tasks' gradients are merged; its arguments are those of `Engine`."""

    def __init__(
        self,
        gradients: StepGradients,
        optimizers: OwnerOptimizers,
        penalty: Penalty | None = None,
        patch_stack: PatchStack | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        super().__init__(gradients, optimizers, penalty, patch_stack, verifier)
        assert gradients.merged is not None
        self._tasks: TaskGradients = gradients.merged
        self._whole = False  # the update is a separate graph
        self._lanes = min(by_task.LANES, 1 << (len(gradients.names) - 1).bit_length())
        self._flat = FlatGradients(self._tasks, self._lanes, self.device)
        self._flat.restore()
        self._trained = list(dict.fromkeys([*self._trained, *self._flat.parameters]))
        beside = self._lanes - 1 if self.device.type == "cuda" else 0
        self._streams = [torch.cuda.Stream(self.device) for _ in range(beside)]

    def prepare(self, prepared: PreparedStep) -> PreparedStep:
        """See `Engine`: each group of tasks is packed into one buffer."""
        groups = by_task.groups_of(self.gradients.microbatches, prepared.step, self._lanes)
        packed = [self._packed(side_by_side([tensors_of(m) for m in group.microbatches])) for group in groups]
        return replace(prepared, packed=packed, groups=groups)

    def step(self, prepared: PreparedStep, move: Move) -> None:
        """See `Engine`."""
        number = prepared.step.number
        ready = []
        for group, packed in zip(prepared.groups, prepared.packed, strict=True):
            ready.append((group, self._pass_of(packed), packed))
            if self.probe is not None and self.probe.is_new(packed.form):
                self._check(ready[-1][1], packed, group, prepared)
        present = sorted({task for group in prepared.groups for task in group.tasks})
        self._begin(number, move)
        seen: set[int] = set()
        several = len(ready) > 1
        for group, captured, packed in ready:
            self._replay(captured, packed, number, _purpose(group))
            if several:
                first = [task not in seen for task in group.tasks]
                self._flat.hold([present.index(task) for task in group.tasks], first, len(present))
                seen |= set(group.tasks)
        self._merge(present, several, step_seed(self.training.seed, number, 0, "conflict"))

    def _merge(self, present: list[int], several: bool, seed: int) -> None:
        """Merge the tasks' gradients, and update every owner that is not absent."""
        assert self._update is not None
        matrix = self._flat.matrix(len(present), several)
        if len(present) == 1:  # nothing to merge, and so nothing to wait for
            plain = torch.ones(1, dtype=torch.float64)
            self._flat.write(matrix, present, Merged(plain, plain, plain))
            self._update()
            return
        products = [self._flat.gramian(matrix).flatten()]
        if self._tasks.conflict.whole:
            products.append(self._flat.task_squares(present))
        values = torch.cat(products).cpu()  # waits for the device
        if not values.isfinite().all():
            self.losses()  # raises the error of a loss that is not finite, which names the step and the task
        size = len(present) ** 2
        gramian = values[:size].view(len(present), -1)
        merged = self._tasks.weigh(present, gramian, values[size:] if len(values) > size else None, seed)
        self._flat.write(matrix, present, merged)
        self._update()
        self._tasks.count(present, gramian)  # while the device updates

    def _check(self, captured: Captured, packed: Packed, group: TaskGroup, prepared: PreparedStep) -> None:
        """Verify the pass of a group; the patched model is compared with the plain one on a mixed batch."""
        assert self.probe is not None
        mixed = next(iter(self.gradients.microbatches.of(prepared.step)))
        number, purpose = prepared.step.number, _purpose(group)
        check_capture(self, self.probe, captured, packed, group.microbatches, number, purpose, mixed)

    def norms(self, probe: Probe, microbatches: Sequence[MicroBatch]) -> dict[str, float]:
        """The norm of each owner's gradient, separately for each task of a group where tasks share it."""
        shared = [item for share in self._tasks.shared for item in share.items]
        owned = [item for items in self._tasks.task_items for item in items]
        norms = owner_norms(owned, _gradient)
        for lane, microbatch in enumerate(microbatches):
            self._flat.show(lane)
            name = self.gradients.names[int(microbatch.tasks[0])]
            for owner, norm in owner_norms(shared, _gradient).items():
                norms[f"{owner} by task {name!r} in lane {lane}"] = norm
        return norms

    def _pass_of(self, packed: Packed) -> Captured:
        if packed.form not in self._passes:
            self._passes[packed.form] = self._capture_pass(packed, self._side_by_side)
        return self._passes[packed.form]

    def _side_by_side(self, batch: dict[str, Tensor], values: list[Tensor]) -> None:
        """The passes of a group of tasks, each in a stream of its own; then what they have in common."""
        lanes = lanes_of(batch)
        losses, owned = [], []
        # Until all streams have met, no gradient may be freed. Autograd adds gradients up in the stream in
        # which a parameter was first used, which may be that of a different lane. The memory of a freed one
        # would belong to that stream again, which may write to it before this lane has copied from it.
        alive: list[list[Tensor | None]] = []
        with self._beside(len(lanes)) as streams:
            for number, (lane, stream) in enumerate(zip(lanes, streams, strict=True)):
                with stream:
                    losses.append(self._pass(lane))
                    owned.append(self._flat.take(number))
                    alive.append([parameter.grad for parameter in self._flat.parameters])
        alive.clear()
        self._flat.restore()
        for gradients in owned:
            self._flat.add_owned(gradients)
        tasks, weight = (torch.cat([lane[key] for lane in lanes]) for key in ("tasks", "weight"))
        values[:] = [torch.cat(losses)]
        self._losses.add(values[0], tasks, weight, self._number)

    @contextmanager
    def _beside(self, lanes: int) -> Iterator[list[AbstractContextManager[object]]]:
        """A context for each lane in which its kernels run beside those of the others: streams of a GPU."""
        if not self._streams:
            yield [nullcontext()] * lanes
            return
        main = torch.cuda.current_stream(self.device)
        streams = self._streams[: lanes - 1]
        for stream in streams:
            stream.wait_stream(main)
        yield [nullcontext(), *(torch.cuda.stream(stream) for stream in streams)]
        for stream in streams:
            main.wait_stream(stream)

    def _pass(self, batch: dict[str, Tensor]) -> Tensor:
        """The gradients of one task's rows, P times those of its part of the loss; returns losses, [E]."""
        self._flat.release()
        output, labels = self._forward(batch, True)
        tasks, weight = batch["tasks"], batch["weight"]
        losses = self.model.example_losses(output, labels)[: len(weight)]
        (losses * (weight * self._factors[tasks])).sum().mul(self._present).backward()
        return losses.detach()

    def _step_optimizers(self) -> None:
        self._flat.scale_owned()
        super()._step_optimizers()


def _purpose(group: TaskGroup) -> str:
    return f"dropout {group.chunk} {group.tasks[0]}"


def _gradient(parameter: torch.nn.Parameter) -> Tensor | None:
    return parameter.grad
