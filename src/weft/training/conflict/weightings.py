"""torchjd's weightings by name: those that need only the Gramian and have no state.

`reference` cites each method; torchjd computes the weights. Settings have torchjd's names. Gramians are
normalized before they are passed to torchjd, because its small constants are absolute.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from weft.errors import RunFailed, train_key
from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from torch import Tensor


class Weighting(Conflict):
    """Weights from torchjd for shared parameters; parameters of one task keep their plain gradient.

    A task with a zero gradient is left out and has the plain weight: most methods fail on it, or set all
    weights to zero.

    Attributes:
        reference: the paper of the method.
    """

    needs: ClassVar[dict[str, str]] = {"torchjd": "torchjd"}
    reference: ClassVar[str]

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """torchjd's weights, [P], times (tasks with a gradient)/P; 1/P for parameters of one task."""
        import torch

        count = len(tasks)
        plain = torch.full((count,), 1 / count, dtype=torch.float64)
        live = (gramian.diagonal() > 0).nonzero().flatten()
        if len(live) < 2:
            return Merged(plain, plain, plain)
        weights = plain.clone()
        try:
            with _seeded(seed), torch.no_grad():
                live_weights = self.weights(gramian[live][:, live], [tasks[i] for i in live.tolist()])
        except Exception as wrong:  # the solvers have no exception in common
            raise RunFailed(
                f"conflict {self.name!r} found no weights for the gradients of a step: {wrong}\n"
                f"  start again with a different {train_key('conflict')}, such as pcgrad"
            ) from wrong
        weights[live] = live_weights.double() * (len(live) / count)
        return Merged(weights, weights, plain)

    @abstractmethod
    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """The weights of gradients of which none is zero, [P]; torch's generator is seeded already.

        Args:
            gramian: the products of the gradients, [P, P].
            tasks: the numbers of their tasks, [P].
        """


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the host's generator inside and restore it; `torch.manual_seed` would also seed the GPUs."""
    import torch

    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def scaled(gramian: Tensor) -> Tensor:
    """The Gramian scaled to a mean diagonal of one, [P, P]."""
    return gramian / gramian.diagonal().mean()


_QUADPROG = {"torchjd": "torchjd", "qpsolvers": "qpsolvers", "quadprog": "quadprog"}


class _DualCone(Weighting):
    """Projections on the cone of all d with d·g_i ≥ 0 for every i.

    The cone does not depend on the gradients' norms, so the gradients are normalized: the regularization of
    the diagonal is then equal for all.
    """

    needs = _QUADPROG

    reg_eps: PositiveFloat = Field(
        1e-10, description="added to the diagonal of the Gramian (trace one) to make it invertible"
    )

    @property
    def promises(self) -> bool:
        """True: the projections are in the cone."""
        return True

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """w = v/‖g‖ with v the weights of the unit gradients, for the preference ‖g‖/P."""
        from torchjd.aggregation import DualProjWeighting, UPGradWeighting
        from torchjd.linalg import QuadprogProjector

        length = gramian.diagonal().sqrt()
        unit = gramian / (length[:, None] * length)
        weighting = UPGradWeighting if self.name == "upgrad" else DualProjWeighting
        preference = length / (len(length) * length.mean())
        unit_weights = weighting(preference, projector=QuadprogProjector(reg_eps=self.reg_eps))(unit)
        return unit_weights * length.mean() / length


class UPGrad(_DualCone):
    """The mean of the gradients, each projected on the cone without conflict."""

    name = "upgrad"
    reference = "Quinton and Rey, Jacobian descent for multi-objective optimization, arXiv:2406.16232"


class DualProj(_DualCone):
    """The mean gradient, projected on the cone without conflict."""

    name = "dual_proj"
    reference = "Lopez-Paz and Ranzato, Gradient episodic memory for continual learning, NeurIPS 2017"


class MGDA(Weighting):
    """The shortest of all convex combinations of the gradients."""

    name = "mgda"
    reference = "Désidéri 2012; Sener and Koltun, Multi-task learning as multi-objective optimization, 2018"

    epsilon: PositiveFloat = Field(0.001, description="step size below which the search ends")
    max_iters: PositiveInt = Field(100, description="maximum iterations of the search")

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """The result of a Frank-Wolfe search, [P]; the weights sum to 1."""
        from torchjd.aggregation import MGDAWeighting

        return MGDAWeighting(epsilon=self.epsilon, max_iters=self.max_iters)(scaled(gramian))


class CAGrad(Weighting):
    """The gradient that is best for the worst task, within c·‖ḡ‖ of the mean gradient ḡ."""

    name = "cagrad"
    reference = "Liu et al., Conflict-averse gradient descent for multi-task learning, NeurIPS 2021"
    needs = {"torchjd": "torchjd", "cvxpy": "cvxpy", "clarabel": "clarabel"}  # noqa: RUF012

    c: NonNegativeFloat = Field(
        0.5, description="radius around the mean gradient, relative to its norm; from 1 on no task gets worse"
    )

    @property
    def promises(self) -> bool:
        """True from c = 1 on: the zero gradient, which harms no task, is then within the radius."""
        return self.c >= 1

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """1/P + (c·‖ḡ‖/‖g_w‖)·w, [P]."""
        from torchjd.aggregation import CAGradWeighting

        # with torchjd's default of 1e-4, a task with a smaller gradient sets every weight to zero
        return CAGradWeighting(c=self.c, norm_eps=1e-8)(scaled(gramian))


class AlignedMTL(Weighting):
    """The mean of the gradients after they are made orthogonal and equally long."""

    name = "aligned_mtl"
    reference = "Senushkin et al., Independent component alignment for multi-task learning, CVPR 2023"

    scale_mode: Literal["min", "median", "rmse"] = Field(
        "min", description="common norm: the minimum, median or root mean square of the singular values"
    )

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """σ·G^(−1/2)·(1/P), [P]."""
        from torchjd.aggregation import AlignedMTLWeighting

        return AlignedMTLWeighting(scale_mode=self.scale_mode)(scaled(gramian))


class IMTLG(Weighting):
    """The combination whose projections on all unit gradients are equal."""

    name = "imtl_g"
    reference = "Liu et al., Towards impartial multi-task learning, ICLR 2021"

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """G⁺·‖g‖, divided by its sum, [P]."""
        from torchjd.aggregation import IMTLGWeighting

        return IMTLGWeighting()(scaled(gramian))


class FairGrad(Weighting):
    """α-fair progress of the tasks: G·w = w^(−1/α)."""

    name = "fair_grad"
    reference = "Ban and Ji, Fair resource allocation in multi-task learning, ICML 2024"

    alpha: PositiveFloat = Field(
        1.0, description="fairness: 1 is proportional; large values favour the worst task"
    )
    max_iters: PositiveInt | None = Field(None, description="maximum solver iterations; null: 100·P")

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """The root of G·w − w^(−1/α), [P]; for G = m·H it is m^(−α/(1+α)) times that for H."""
        from torchjd.aggregation import FairGradWeighting

        weights = FairGradWeighting(alpha=self.alpha, max_iters=self.max_iters)(scaled(gramian))
        return weights * gramian.diagonal().mean() ** (-self.alpha / (1 + self.alpha))


class Random(Weighting):
    """Random weights in every step: the softmax of P normal numbers."""

    name = "random"
    reference = "Lin et al., Reasonable effectiveness of random weighting, TMLR 2022"

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """Positive weights with sum 1, [P]."""
        from torchjd.aggregation import RandomWeighting

        return RandomWeighting()(gramian)
