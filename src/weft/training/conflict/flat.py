"""The gradients of a step's tasks in fixed memory, for passes that are captured in a CUDA graph.

    rows[i] = the gradient of all shared parameters, one after the other, of the i-th task of a pass, [L, N]

The L tasks of a pass run side by side, so each has its own row. If a step has several passes, their rows are
added to `held` [P, N], one row for each present task. The products of the tasks' gradients are then one
matrix product, and the merged gradient Σ w_t·g_t is another one. It is written to the memory in which the
optimizers find the gradients: `p.grad` of a parameter that is shared as a whole is a view of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.training.conflict.conflict import Merged
from weft.training.conflict.gradients import TaskGradients

if TYPE_CHECKING:
    from weft.model.ownership import Owned

BLOCK = 4096
"""Products are summed in the gradients' precision over so many values, and in float64 over these sums."""

ALIGNED = 64
"""Each parameter begins at a multiple of so many values, so that kernels may read whole words."""


class FlatGradients:
    """The gradients of a step's tasks, each in a row of one matrix.

    A pass of one task is: `release`, backward, `take`. When all tasks of a pass are done, `restore` points
    `p.grad` to its fixed memory again and `add_owned` adds the gradients of parameters that one task owns.
    After the last pass of a step: `gramian`, `write`, and in the captured update `scale_owned`.

    Args:
        tasks: which parameters are shared, and by which tasks.
        lanes: L, the most tasks of a pass.
        device: where the gradients are.

    Attributes:
        parameters: all parameters that train.
        rows: the gradients of the tasks of the last pass, [L, N]; N includes unused columns, which are zero.
    """

    def __init__(self, tasks: TaskGradients, lanes: int, device: torch.device) -> None:
        self._tasks, self._device = tasks, device
        by_parameter: dict[nn.Parameter, list[tuple[Owned, int | None]]] = {}
        for number, share in enumerate(tasks.shared):
            for item in share.items:
                by_parameter.setdefault(item.parameter, []).append((item, number))
        for items in tasks.task_items:
            for item in items:
                by_parameter.setdefault(item.parameter, []).append((item, None))
        self.parameters = list(by_parameter)
        # the columns of each share, one share after the other
        self._columns: list[tuple[Owned, int, int]] = []
        self._segments: list[tuple[int, int]] = []
        end = 0
        for share in tasks.shared:
            start = end
            for item in share.items:
                self._columns.append((item, end, end + item.numel))
                end += -(-item.numel // ALIGNED) * ALIGNED
            self._segments.append((start, end))
        self.size = -(-end // BLOCK) * BLOCK
        self._dtype = self.parameters[0].dtype if self.parameters else torch.float32
        self.rows = torch.zeros(lanes, self.size, dtype=self._dtype, device=device)
        self._views = [self._as_items(row) for row in self.rows]
        self._held = self.rows[:0]
        self._merged = torch.zeros_like(self.rows[0])
        self._fixed: dict[nn.Parameter, Tensor] = {}
        # (memory in p.grad, merged gradient) of slots beside which other owners have theirs
        self._beside: list[tuple[Tensor, Tensor]] = []
        for (item, _, _), view in zip(self._columns, self._as_items(self._merged), strict=True):
            if len(by_parameter[item.parameter]) == 1 and view.numel() == item.parameter.numel():
                self._fixed[item.parameter] = view.view(item.parameter.shape)
        for parameter in self.parameters:
            self._fixed.setdefault(parameter, torch.zeros_like(parameter))
        for (item, _, _), view in zip(self._columns, self._as_items(self._merged), strict=True):
            if item.slot is not None and self._fixed[item.parameter].data_ptr() != view.data_ptr():
                self._beside.append((self._fixed[item.parameter][item.slot], view))
        self._find_owned(by_parameter)

    def _find_owned(self, by_parameter: dict[nn.Parameter, list[tuple[Owned, int | None]]]) -> None:
        """Find the parameters that tasks own, whole where no slot is shared, and the task of each slot."""
        number_of = {id(item): t for t, items in enumerate(self._tasks.task_items) for item in items}
        self._owned: list[tuple[nn.Parameter, int | None]] = []
        self._factors: list[tuple[Tensor, Tensor]] = []
        self.single = self.rows.new_ones(len(self._tasks.names) + 1)
        known: dict[tuple[int, ...], Tensor] = {}
        for parameter, items in by_parameter.items():
            slots = [(item.slot, number_of[id(item)]) for item, share in items if share is None]
            if not slots:
                continue
            if len(slots) == len(items):
                self._owned.append((parameter, None))
            else:
                self._owned += [(parameter, slot) for slot, _ in slots]
            # the last entry of `single` is 1: for slots of other owners, and of tasks that do not train
            tasks = [len(self._tasks.names)] * len(parameter)
            for slot, task in slots:
                assert slot is not None, "what one task owns is a slot of a stacked parameter"
                tasks[slot] = task
            index = known.setdefault(tuple(tasks), torch.tensor(tasks, device=self._device))
            self._factors.append((self._fixed[parameter], index))

    def _as_items(self, flat: Tensor) -> list[Tensor]:
        """The values of each item in [N], as views with the item's shape."""
        return [
            flat[start:end].view(item.parameter.shape if item.slot is None else item.parameter.shape[1:])
            for item, start, end in self._columns
        ]

    def release(self) -> None:
        """Before a task's backward pass: it then writes new gradients, and adds nothing."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def take(self, lane: int) -> list[Tensor | None]:
        """After a task's backward pass: copy the gradient of shared parameters into the task's row.

        Args:
            lane: the task's position in the pass.

        Returns:
            The gradient of each parameter that a task owns, for `add_owned`.
        """
        to, values, unused = [], [], []
        for (item, _, _), view in zip(self._columns, self._views[lane], strict=True):
            gradient = item.parameter.grad
            if gradient is None:
                unused.append(view)
            else:
                to.append(view)
                values.append(gradient if item.slot is None else gradient[item.slot])
        if to:
            torch._foreach_copy_(to, values)
        if unused:
            torch._foreach_zero_(unused)
        owned = []
        for parameter, slot in self._owned:
            gradient = parameter.grad
            owned.append(gradient if gradient is None or slot is None else gradient[slot])
        return owned

    def restore(self) -> None:
        """Point `p.grad` to its fixed memory."""
        for parameter, memory in self._fixed.items():
            parameter.grad = memory

    @torch.no_grad()
    def add_owned(self, owned: Sequence[Tensor | None]) -> None:
        """Add the result of `take` to `p.grad`."""
        to, values = [], []
        for (parameter, slot), gradient in zip(self._owned, owned, strict=True):
            if gradient is not None:
                memory = self._fixed[parameter]
                to.append(memory if slot is None else memory[slot])
                values.append(gradient)
        if to:
            torch._foreach_add_(to, values)

    @torch.no_grad()
    def hold(self, places: Sequence[int], first: Sequence[bool], count: int) -> None:
        """Keep the rows of a pass, in a step of several passes.

        Args:
            places: the position of each row's task among the present tasks.
            first: whether the task has no gradient in this step yet.
            count: P, the number of present tasks.
        """
        if len(self._held) < count:
            held = self.rows.new_zeros(count, self.size)
            held[: len(self._held)] = self._held
            self._held = held
        for row, place, new in zip(self.rows, places, first, strict=False):
            if new:
                self._held[place].copy_(row)
            else:
                self._held[place].add_(row)

    def matrix(self, count: int, held: bool) -> Tensor:
        """The gradients of the P present tasks, [P, N]: those held, or those of the only pass."""
        return (self._held if held else self.rows)[:count]

    @torch.no_grad()
    def gramian(self, matrix: Tensor) -> Tensor:
        """The products of the tasks' gradients, [P, P] float64 on the device.

        Args:
            matrix: see `matrix`.
        """
        count = len(matrix)
        if self._device.type == "cpu":
            total = torch.zeros(count, count, dtype=torch.float64)
            for block in matrix.split(2**18 // count, 1):
                total.addmm_(block.double(), block.double().T)
        else:
            # not converted: float64 would take three times the memory traffic
            blocks = matrix.view(count, -1, BLOCK).transpose(0, 1)  # [N/B, P, B]
            total = torch.bmm(blocks, blocks.transpose(1, 2)).sum(0, dtype=torch.float64)
        return (total + total.T) / 2

    @torch.no_grad()
    def task_squares(self, present: Sequence[int]) -> Tensor:
        """The squared norm of each present task's gradient of the parameters that it owns, [P] float64."""
        squares = []
        for task in present:
            gradients = [self._fixed[item.parameter][item.slot] for item in self._tasks.task_items[task]]
            if gradients:
                norms = torch._foreach_norm(gradients, 2, torch.float64)
                squares.append(torch.stack(norms).square().sum())
            else:
                squares.append(torch.zeros((), dtype=torch.float64, device=self._device))
        return torch.stack(squares)

    @torch.no_grad()
    def write(self, matrix: Tensor, present: Sequence[int], merged: Merged) -> None:
        """Write the merged gradient of shared parameters to `p.grad`, and the factors of `scale_owned`.

        Args:
            matrix: see `matrix`.
            present: the numbers of the present tasks, [P].
            merged: the weights of their gradients.
        """
        count = len(present)
        single = torch.ones(len(self.single), dtype=self._dtype)
        single[list(present)] = merged.single.to(self._dtype)
        numbers = torch.cat([single, merged.all.to(self._dtype), merged.some.to(self._dtype)])
        if self._device.type == "cuda":
            numbers = numbers.pin_memory().to(self._device, non_blocking=True)
        self.single.copy_(numbers[: len(single)])
        weights = numbers[len(single) :].split(count)
        for (start, end), every in self._spans(present):
            columns = matrix[:, start:end]
            torch.mv(columns.T, weights[0 if every else 1], out=self._merged[start:end])
        self._copy_beside()

    def _spans(self, present: Sequence[int]) -> list[tuple[tuple[int, int], bool]]:
        """Ranges of columns, and whether every present task uses their parameters."""
        spans: list[tuple[tuple[int, int], bool]] = []
        for (start, end), share in zip(self._segments, self._tasks.shared, strict=True):
            every = share.tasks.issuperset(present)
            if spans and spans[-1][1] == every:
                spans[-1] = ((spans[-1][0][0], end), every)
            else:
                spans.append(((start, end), every))
        return spans

    @torch.no_grad()
    def show(self, lane: int) -> None:
        """Write the gradient of one task of the last pass to `p.grad`, for verification."""
        self._merged.copy_(self.rows[lane])
        self._copy_beside()

    def _copy_beside(self) -> None:
        if self._beside:
            to, values = zip(*self._beside, strict=True)
            torch._foreach_copy_(list(to), list(values))

    @torch.no_grad()
    def scale_owned(self) -> None:
        """Multiply the gradient of what a task owns by the task's weight; this can be captured."""
        if not self._factors:
            return
        factors = [
            self.single.index_select(0, index).view(-1, *[1] * (memory.dim() - 1))
            for memory, index in self._factors
        ]
        torch._foreach_mul_([memory for memory, _ in self._factors], factors)
