"""torchjd's weightings with state: `grad_vac` and `nash_mtl`. Their state is kept by task.

A step may have any subset of the tasks, while torchjd's state is for a fixed list of them. It is therefore
assembled before each call and stored by task after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, NonNegativeFloat, PositiveInt, PrivateAttr

from weft.training.conflict.weightings import Weighting, scaled

if TYPE_CHECKING:
    from torch import Tensor


class GradVac(Weighting):
    """Rotates gradients so that the cosine of each pair is at least its running mean.

    If cos(g_i^PC, g_j) is below its running mean φ_ij, a multiple of g_j is added that makes them equal;
    φ ← (1 − β)·φ + β·cos. A pair's φ does not change in steps without one of the two tasks. As with PCGrad,
    the result is the mean of the rotated gradients.
    """

    name = "grad_vac"
    reference = "Wang et al., Gradient vaccine, ICLR 2021"

    beta: float = Field(0.5, ge=0, le=1, description="weight of the newest cosine in the running mean")

    _phi: dict[tuple[str, str], float] = PrivateAttr(default_factory=dict)

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """(1/P)·Σ_i c_ik, [P]."""
        import torch
        from torchjd.aggregation import GradVacWeighting

        names, count = [self._name(task) for task in tasks], len(tasks)
        made: Any = GradVacWeighting(beta=self.beta)
        rows = [[self._phi.get((a, b), 0.0) for b in names] for a in names]
        made._phi_t = torch.tensor(rows, dtype=gramian.dtype)
        made._state_key = (count, gramian.dtype)
        weights: Tensor = made(scaled(gramian))
        for a, row in zip(names, made._phi_t.tolist(), strict=True):
            self._phi |= {(a, b): phi for b, phi in zip(names, row, strict=True) if a != b}
        return weights / count

    def state(self) -> dict[str, Any]:
        """φ of each pair."""
        return {"phi": [[a, b, phi] for (a, b), phi in sorted(self._phi.items())]}

    def load(self, state: dict[str, Any]) -> None:
        """Restore φ."""
        self._phi = {(a, b): phi for a, b, phi in state["phi"]}


class NashMTL(Weighting):
    """The Nash bargaining solution: G·w = 1/w.

    The solver begins at each task's last weight. torchjd expects the gradients, but uses only their products
    and the norm of their combination, so a square root of the Gramian can replace them.
    """

    name = "nash_mtl"
    reference = "Navon et al., Multi-task learning as a bargaining game, ICML 2022"
    needs = {"torchjd": "torchjd", "cvxpy": "cvxpy", "ecos": "ecos"}  # noqa: RUF012

    max_norm: NonNegativeFloat = Field(1.0, description="maximum norm of the merged gradient; 0: unlimited")
    optim_niter: PositiveInt = Field(20, description="maximum solver iterations per step")

    _weight: dict[str, float] = PrivateAttr(default_factory=dict)
    _solvers: dict[int, Any] = PrivateAttr(default_factory=dict)

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """w with G·w ≈ 1/w, scaled down to `max_norm`, [P]."""
        import numpy as np
        import torch

        names, count = [self._name(task) for task in tasks], len(tasks)
        # torchjd's solver fails on small gradients; for G = m·H the solution is that of H divided by √m
        mean = gramian.diagonal().mean()
        values, vectors = torch.linalg.eigh(gramian / mean)
        root = vectors * values.clamp(min=0).sqrt()  # [P, P], root·rootᵀ = G
        if count not in self._solvers:
            from torchjd.aggregation import NashMTL as Theirs

            made = Theirs(n_tasks=count, max_norm=self.max_norm, optim_niter=self.optim_niter)
            self._solvers[count] = made.weighting
        solver = self._solvers[count]
        solver.prvs_alpha = np.array([self._weight.get(name, 1.0) for name in names])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torchjd warns of every rebuilt problem and inexact solution
            weights: Tensor = solver(root)
        self._weight |= dict(zip(names, solver.prvs_alpha.tolist(), strict=True))
        return weights / mean.sqrt()

    def state(self) -> dict[str, Any]:
        """The last weight of each task."""
        return {"weight": dict(self._weight)}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the weights."""
        self._weight = dict(state["weight"])
