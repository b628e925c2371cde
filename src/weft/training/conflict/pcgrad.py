"""`pcgrad`: projects gradients on the normal planes of conflicting ones (Yu et al. 2020); Tseng's variant.

Every g_i^PC is a combination Σ_k c_ik·g_k of the original gradients, so all products follow from the Gramian:
g_i^PC·g_j = (c·G)_ij, and subtracting the projection on g_j changes only c_ij.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, field_validator

from weft.errors import WeftError, did_you_mean
from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from torch import Tensor


def project(gramian: Tensor, orders: Sequence[Sequence[int]], include_self: bool = False) -> Tensor:
    """The coefficients c [P, P] of g_i^PC = Σ_k c_ik·g_k.

    c starts as the identity; for each i, and each j in its order: if g_i^PC·g_j < 0, then
    g_i^PC ← g_i^PC − (g_i^PC·g_j / ‖g_j‖²)·g_j, with the original g_j.

    Args:
        gramian: the products of the P gradients, [P, P] float64.
        orders: for each i, the order of the j, which may include i itself.
        include_self: whether j = i is projected on too.
    """
    import torch

    products = gramian.tolist()
    coefficients = []
    for i, order in enumerate(orders):
        c = [float(k == i) for k in range(len(products))]
        for j in order:
            if j == i and not include_self:
                continue
            dot = sum(a * b for a, b in zip(c, products[j], strict=True))
            if dot < 0 and products[j][j] > 0:
                c[j] -= dot / products[j][j]
        coefficients.append(c)
    return torch.tensor(coefficients, dtype=torch.float64)


class PCGrad(Conflict):
    """Projects each task's gradient on the normal plane of every gradient that it conflicts with.

    If no two gradients have a negative product, all weights are exactly the plain ones. Parameters that one
    task owns keep that task's gradient.
    """

    name = "pcgrad"

    scope: Literal["shared", "all"] = Field(
        "shared", description="parameters that gradients are compared over: shared ones, or all"
    )
    reduction: Literal["mean", "sum"] = Field("mean", description="mean or sum of the projected gradients")
    order: Literal["random"] | list[str] = Field(
        "random",
        description="order of the projections: random for each task and step, or a list of all task names",
    )
    include_self: bool = Field(
        False, description="whether a projected gradient is also projected against its original"
    )

    @field_validator("order")
    @classmethod
    def _once(cls, order: str | list[str]) -> str | list[str]:
        if isinstance(order, list) and len(set(order)) < len(order):
            twice = next(name for name in order if order.count(name) > 1)
            raise ValueError(f"names {twice!r} twice; expected every task once, or random")
        return order

    @property
    def whole(self) -> bool:
        """Whether `scope` is all."""
        return self.scope == "all"

    def of(self, names: Sequence[str]) -> Self:
        """See `Conflict`; a configured order must name all tasks."""
        if self.order != "random":
            for name in self.order:
                if name not in names:
                    raise WeftError(
                        f"train.conflict: order names the task {name!r}; {did_you_mean(name, names)}"
                    )
            missing = [name for name in names if name not in self.order]
            if missing:
                raise WeftError(
                    f"train.conflict: order lacks {', '.join(missing)}; expected every task that trains"
                )
        return super().of(names)

    def orders(self, tasks: Sequence[int], seed: int) -> list[list[int]]:
        """For each present task the order of the others, as positions in `tasks`."""
        places = list(range(len(tasks)))
        if self.order != "random":
            places.sort(key=lambda place: self.order.index(self._name(tasks[place])))
            return [places] * len(tasks)
        draw = random.Random(seed)
        return [draw.sample(places, len(places)) for _ in tasks]

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """w_k = Σ_i c_ik, divided by P under `mean`."""
        import torch

        total = project(gramian, self.orders(tasks, seed), self.include_self).sum(0)  # [P]
        ones = torch.ones(len(tasks), dtype=torch.float64)
        if self.reduction == "sum":
            return Merged(total, total, ones)
        return Merged(total / len(tasks), total / len(tasks), ones / len(tasks))


class PCGradTseng(Conflict):
    """PCGrad as in Tseng's code, which the multitask LoRA report used; it has no settings.

    Gradients are compared over every parameter that trains. One list of the tasks is shuffled in place, again
    for every i, and i stays in it. For parameters that every present task uses, the projected gradients are
    averaged; for all other parameters they are summed.
    """

    name = "pcgrad_tseng"

    @property
    def whole(self) -> bool:
        """Always: gradients are compared over every parameter."""
        return True

    def orders(self, tasks: Sequence[int], seed: int) -> list[list[int]]:
        """For each present task the order of all, as positions in `tasks`, by Python's `random`."""
        draw, places = random.Random(seed), list(range(len(tasks)))
        orders = []
        for _ in tasks:
            draw.shuffle(places)
            orders.append(list(places))
        return orders

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """Σ_i c_ik / P for parameters that all present tasks use, Σ_i c_ik for others."""
        total = project(gramian, self.orders(tasks, seed), include_self=True).sum(0)
        return Merged(total / len(tasks), total, total)
