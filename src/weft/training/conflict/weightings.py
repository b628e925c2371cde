"""torchjd's weightings by name: those that need the Gramian alone and remember nothing.

`reference` says what each is; torchjd computes the weights. Their settings have torchjd's names. Gramians are
given to it at a scale of one, since its small constants are not relative ones.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from weft.errors import RunFailed
from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from torch import Tensor


class Weighting(Conflict):
    """Weights from torchjd, for all that several tasks share; what a task owns keeps its plain gradient.

    A task without a gradient in what is shared is left out and has the plain weight: most methods have no
    answer for it, or answer zero to all.

    Attributes:
        reference: where the method is from.
    """

    needs: ClassVar[dict[str, str]] = {"torchjd": "torchjd"}
    reference: ClassVar[str]

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """torchjd's weights, [P], times (tasks with a gradient)/P; 1/P for what a task owns."""
        import torch

        count = len(tasks)
        plain = torch.full((count,), 1 / count, dtype=torch.float64)
        live = (gramian.diagonal() > 0).nonzero().flatten()
        if len(live) < 2:
            return Merged(plain, plain, plain)
        weights = plain.clone()
        try:
            with _seeded(seed), torch.no_grad():
                found = self.weights(gramian[live][:, live], [tasks[i] for i in live.tolist()])
        except Exception as wrong:  # the solvers have no exception in common
            raise RunFailed(
                f"conflict {self.name!r} found no weights for the gradients of a step: {wrong}\n"
                "  go on from the last checkpoint with another train.conflict, such as pcgrad"
            ) from wrong
        weights[live] = found.double() * (len(live) / count)
        return Merged(weights, weights, plain)

    @abstractmethod
    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """The weights of gradients none of which is zero, [P]; drawn numbers are torch's, seeded already.

        Args:
            gramian: [P, P].
            tasks: their tasks' numbers, [P].
        """


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the host's generator inside, and leave it as it was; `torch.manual_seed` would move the GPUs'."""
    import torch

    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def scaled(gramian: Tensor) -> Tensor:
    """The Gramian at a mean diagonal of one, [P, P]."""
    return gramian / gramian.diagonal().mean()


_QUADPROG = {"torchjd": "torchjd", "qpsolvers": "qpsolvers", "quadprog": "quadprog"}


class _DualCone(Weighting):
    """Projections on the cone of all d with d·g_i ≥ 0 for every i.

    The cone does not change with the gradients' lengths, so that they are made one: what is added to the
    diagonal then weighs the same for all.
    """

    needs = _QUADPROG

    reg_eps: PositiveFloat = Field(
        1e-10, description="added to the diagonal of the Gramian, of trace one, so that it can be inverted"
    )

    @property
    def promises(self) -> bool:
        """Yes: both are in the cone."""
        return True

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """w = v/‖g‖ with v the weights of the unit gradients, for the preference ‖g‖/P."""
        from torchjd.aggregation import DualProjWeighting, UPGradWeighting
        from torchjd.linalg import QuadprogProjector

        length = gramian.diagonal().sqrt()
        unit = gramian / (length[:, None] * length)
        made = UPGradWeighting if self.name == "upgrad" else DualProjWeighting
        preference = length / (len(length) * length.mean())
        found = made(preference, projector=QuadprogProjector(reg_eps=self.reg_eps))(unit)
        return found * length.mean() / length


class UPGrad(_DualCone):
    """Each gradient projected on the cone of no conflict, and the mean of these."""

    name = "upgrad"
    reference = "Quinton and Rey, Jacobian descent for multi-objective optimization, arXiv:2406.16232"


class DualProj(_DualCone):
    """The mean gradient projected on the cone of no conflict."""

    name = "dual_proj"
    reference = "Lopez-Paz and Ranzato, Gradient episodic memory for continual learning, NeurIPS 2017"


class MGDA(Weighting):
    """The shortest of all convex combinations of the gradients."""

    name = "mgda"
    reference = "Désidéri 2012; Sener and Koltun, Multi-task learning as multi-objective optimization, 2018"

    epsilon: PositiveFloat = Field(0.001, description="the step of the search below which it ends")
    max_iters: PositiveInt = Field(100, description="the most steps of the search")

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """Frank and Wolfe's search, [P]; they sum to 1."""
        from torchjd.aggregation import MGDAWeighting

        return MGDAWeighting(epsilon=self.epsilon, max_iters=self.max_iters)(scaled(gramian))


class CAGrad(Weighting):
    """The best for the worst task among all gradients within c times the mean gradient's length of it."""

    name = "cagrad"
    reference = "Liu et al., Conflict-averse gradient descent for multi-task learning, NeurIPS 2021"
    needs = {"torchjd": "torchjd", "cvxpy": "cvxpy", "clarabel": "clarabel"}  # noqa: RUF012

    c: NonNegativeFloat = Field(
        0.5, description="the radius around the mean gradient, in its lengths; from 1 on no task loses"
    )

    @property
    def promises(self) -> bool:
        """From c = 1 on: the zero gradient, which no task loses by, is then among those to choose from."""
        return self.c >= 1

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """1/P + (c·‖ḡ‖/‖g_w‖)·w, [P]."""
        from torchjd.aggregation import CAGradWeighting

        # with torchjd's own 1e-4 a task whose gradient is shorter than that sets every weight to zero
        return CAGradWeighting(c=self.c, norm_eps=1e-8)(scaled(gramian))


class AlignedMTL(Weighting):
    """The mean after the gradients are turned into orthogonal ones of equal length."""

    name = "aligned_mtl"
    reference = "Senushkin et al., Independent component alignment for multi-task learning, CVPR 2023"

    scale_mode: Literal["min", "median", "rmse"] = Field(
        "min", description="the common length: the least, the median or the mean of the singular values"
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
        1.0, description="the fairness: 1 is proportional, large ones care for the worst task"
    )
    max_iters: PositiveInt | None = Field(None, description="the most steps of the solver; null: 100·P")

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """The root of G·w − w^(−1/α), [P]; for G = m·H it is m^(−α/(1+α)) times that for H."""
        from torchjd.aggregation import FairGradWeighting

        found = FairGradWeighting(alpha=self.alpha, max_iters=self.max_iters)(scaled(gramian))
        return found * gramian.diagonal().mean() ** (-self.alpha / (1 + self.alpha))


class Random(Weighting):
    """Weights drawn anew in every step: softmax of P normal numbers."""

    name = "random"
    reference = "Lin et al., Reasonable effectiveness of random weighting, TMLR 2022"

    def weights(self, gramian: Tensor, tasks: Sequence[int]) -> Tensor:
        """Positive, with sum 1, [P]."""
        from torchjd.aggregation import RandomWeighting

        return RandomWeighting()(gramian)
