"""`pcgrad`: a gradient loses what points against another's (Yu et al. 2020), and Tseng's way of it.

Every g_i^PC is a combination Σ_k c_ik·g_k of the gradients there were, so that all products follow from the
Gramian: g_i^PC·g_j = (c·G)_ij, and taking away the projection on g_j changes c_ij alone.
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
    g_i^PC ← g_i^PC − (g_i^PC·g_j / ‖g_j‖²)·g_j, with the g_j there were.

    Args:
        gramian: the products of the P gradients, [P, P] float64.
        orders: for each i, the order of the j; i itself may be among them.
        include_self: whether j = i counts as well.
    """
    import torch

    products = gramian.tolist()
    found = []
    for i, order in enumerate(orders):
        c = [float(k == i) for k in range(len(products))]
        for j in order:
            if j == i and not include_self:
                continue
            dot = sum(a * b for a, b in zip(c, products[j], strict=True))
            if dot < 0 and products[j][j] > 0:
                c[j] -= dot / products[j][j]
        found.append(c)
    return torch.tensor(found, dtype=torch.float64)


class PCGrad(Conflict):
    """Each task's gradient is projected on the normal plane of every other's that it has a conflict with.

    Where no two gradients have a negative product, all weights are the plain ones exactly. What a task owns
    keeps the task's own gradient.
    """

    name = "pcgrad"

    scope: Literal["shared", "all"] = Field(
        "shared", description="what gradients are compared over: what tasks share, or every parameter"
    )
    reduction: Literal["mean", "sum"] = Field(
        "mean", description="what is made of the projected gradients: their mean, or their sum"
    )
    order: Literal["random"] | list[str] = Field(
        "random",
        description="the order in which a task is projected against the others: drawn anew for each, "
        "or all tasks by name",
    )
    include_self: bool = Field(
        False, description="whether a projected gradient is also projected against the one it was"
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
        """The same for these tasks; a given order must name them all."""
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
        """For each present task the order of the others, as places in `tasks`."""
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
        own = torch.ones(len(tasks), dtype=torch.float64)
        if self.reduction == "sum":
            return Merged(total, total, own)
        return Merged(total / len(tasks), total / len(tasks), own / len(tasks))


class PCGradTseng(Conflict):
    """PCGrad as Tseng's code has it, which the multitask LoRA report used: it has no settings.

    Gradients are compared over every parameter that trains. One list of the tasks is shuffled in place, again
    for every i, and i stays in it. Where every present task has a gradient the projected ones are averaged;
    elsewhere, and in what a task owns, they are summed.
    """

    name = "pcgrad_tseng"

    @property
    def whole(self) -> bool:
        """It compares over every parameter."""
        return True

    def orders(self, tasks: Sequence[int], seed: int) -> list[list[int]]:
        """For each present task the order of all, as places in `tasks`, by Python's `random`."""
        draw, places = random.Random(seed), list(range(len(tasks)))
        found = []
        for _ in tasks:
            draw.shuffle(places)
            found.append(list(places))
        return found

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """Σ_i c_ik / P where all have a gradient, Σ_i c_ik elsewhere."""
        total = project(gramian, self.orders(tasks, seed), include_self=True).sum(0)
        return Merged(total / len(tasks), total, total)
