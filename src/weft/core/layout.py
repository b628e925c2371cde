"""Which example each row of a batch belongs to, and reductions over an example's rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(eq=False)
class Layout:
    """How R rows make up E examples.

    Attributes:
        example: the example of each row, [R]; None: every row is a separate example.
        count: E. Examples of a padded batch may have no row; their results are never read.
        mask: true where a row has a token, [R, L]; None if nothing is padded.
    """

    example: Tensor | None
    count: int
    mask: Tensor | None = None

    def sum(self, x: Tensor) -> Tensor:
        """The sum over each example's rows, [R, …] → [E, …]."""
        if self.example is None:
            return x
        return x.new_zeros(self.count, *x.shape[1:]).index_add(0, self.example, x)

    def mean(self, x: Tensor) -> Tensor:
        """The mean over each example's rows, [R, …] → [E, …]."""
        if self.example is None:
            return x
        rows = self.sum(x.new_ones(x.size(0))).clamp(min=1)  # a padding example has no rows
        return self.sum(x) / rows.view(-1, *[1] * (x.dim() - 1))

    def max(self, x: Tensor) -> Tensor:
        """The maximum over each example's rows, without a gradient, [R] → [E]."""
        if self.example is None:
            return x.detach()
        lowest = torch.full((self.count,), -torch.inf, dtype=x.dtype, device=x.device)
        return lowest.scatter_reduce(0, self.example, x.detach(), "amax")

    def of_rows(self, x: Tensor) -> Tensor:
        """Copy each example's value to its rows, [E, …] → [R, …]."""
        return x if self.example is None else x.index_select(0, self.example)

    def log_sum_exp(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """log Σ keep·exp(x) over each example's rows, [R] → [E].

        Args:
            x: [R].
            keep: [R], 0 or 1; at least one row of every example is kept. None: all rows are.
        """
        if keep is not None:
            # before the maximum is taken: beside a large discarded row, kept rows would underflow
            x = x.masked_fill(keep == 0, torch.finfo(x.dtype).min)
        highest = self.max(x)
        return highest + self.sum((x - self.of_rows(highest)).exp()).log()

    def first(self, x: Tensor) -> Tensor:
        """The value of each example's first row, [R, …] → [E, …]."""
        if self.example is None:
            return x
        order, first, _ = self._sorted()
        return x.index_select(0, order.index_select(0, first))

    def _sorted(self) -> tuple[Tensor, Tensor, Tensor]:
        """Sort the rows by example.

        Returns:
            The row indices of example 0, then those of example 1, …, [R]; the position in it where each
            example begins, [E]; each example's number of rows, [E]. A padding example without rows begins at
            the last row.
        """
        assert self.example is not None
        rows = self.sum(torch.ones_like(self.example))
        first = (rows.cumsum(0) - rows).clamp(max=self.example.size(0) - 1)
        return self.example.argsort(stable=True), first, rows

    def both(self, x: Tensor) -> Tensor:
        """Join the first two rows of each row's example to [u; v], [R, d] → [R, 2d]; [u; u] if it has one."""
        if self.example is None:
            return torch.cat([x, x], -1)
        order, first, rows = self._sorted()
        second = first + (rows > 1).long()
        pair = [x.index_select(0, order.index_select(0, position)) for position in (first, second)]
        return self.of_rows(torch.cat(pair, -1))
