"""Rules that merge the task vectors of several tasks into one, tensor by tensor.

A task vector is what training has added to a tensor: τ_t = θ_t − θ_0. All tasks start from the same θ_0. With
the weights w_t, which are 1 by default, the scale λ and the density d:

    linear           θ_0 + λ·Σ_t w_t·τ_t / Σ_t w_t           the weighted mean of the tasks' weights
    task_arithmetic  θ_0 + λ·Σ_t w_t·τ_t                     (Ilharco et al., 2023)
    ties             θ_0 + λ·(mean of w_t·trim(τ_t) over the tasks that agree)   (Yadav et al., 2023)
    dare             task_arithmetic of drop(τ_t)            (Yu et al., 2024)
    dare_ties        the agreeing mean, as in ties, of drop(τ_t)

trim keeps the ⌊d·n⌋ entries of the largest magnitude. The sign of an entry is elected: it is that of the sum
over tasks. Tasks agree in an entry if theirs is not zero and has that sign; the mean divides by their number,
as in PEFT. drop keeps every entry with probability d and divides it by d, so that its expectation is τ_t.

These are the functions of `peft.utils.merge_utils`, which the tests compare with; `linear` is PEFT's
`task_arithmetic` with weights whose sum is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import WeftError, did_you_mean, words

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Rule(NamedTuple):
    """A way to merge task vectors.

    Attributes:
        about: one line for help texts.
        density: the default of the share of entries that are kept; None: all are, and no density can be set.
        sums: whether the result is a weighted sum of the vectors: that of low-rank products is one, too.
    """

    about: str
    density: float | None = None
    sums: bool = False


RULES: dict[str, Rule] = {
    "linear": Rule("the weighted mean of the tasks' weights", sums=True),
    "task_arithmetic": Rule("the weighted sum of the task vectors", sums=True),
    "ties": Rule("trim, elect signs, and take the mean of the entries that agree", 0.2),
    "dare": Rule("drop entries at random, rescale, and take the weighted sum", 0.5),
    "dare_ties": Rule("drop entries at random, rescale, elect signs, and take the mean that agrees", 0.5),
}
"""The rules by name. 0.2 is the density of the TIES paper; that of DARE depends on the model, 0.5 is ours."""


@dataclass(frozen=True)
class Merge:
    """How task vectors are merged.

    Attributes:
        rule: one of `RULES`.
        weights: w_t of tasks by name; 1 for a task that is not named.
        density: d, the share of entries that are kept; None: the rule's default.
        scale: λ.
        seed: the random seed of the entries that `dare` keeps.
    """

    rule: str
    weights: Mapping[str, float] = field(default_factory=dict)
    density: float | None = None
    scale: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str) or self.rule not in RULES:
            raise WeftError(
                f"{words('--merge', 'merge')} {self.rule!r}; {did_you_mean(str(self.rule), list(RULES))}"
            )
        if not isinstance(self.weights, Mapping):
            raise WeftError(
                f"{words('--weights', 'weights')}: expected numbers by the names of tasks; "
                f"found {self.weights!r}"
            )
        numbers = {words("--density", "density"): self.density, words("--scale", "scale"): self.scale}
        for what, value in {**numbers, **self.weights}.items():
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if value is not None and not number:
                raise WeftError(f"{what}: expected a number; found {value!r}")
        if type(self.seed) is not int:
            raise WeftError(f"{words('--seed', 'seed')}: expected a whole number; found {self.seed!r}")
        default = RULES[self.rule].density
        if self.density is not None and default is None:
            raise WeftError(
                f"{words('--density', 'density')} {self.density:g}: {self.rule} keeps all entries"
            )
        if self.density is not None and not 0 < self.density <= 1:
            raise WeftError(
                f"{words('--density', 'density')} must be above 0 and at most 1; found {self.density:g}"
            )

    @property
    def kept(self) -> float:
        """The share of entries that are kept."""
        return self.density or RULES[self.rule].density or 1.0

    def of_tasks(self, tasks: Sequence[str]) -> list[float]:
        """The weights of tasks in their order; those of `linear` have the sum 1."""
        for name in self.weights:
            if name not in tasks:
                raise WeftError(
                    f"{words('--weights', 'weights')}: no bundle has a task {name!r}; "
                    f"{did_you_mean(name, list(tasks))}"
                )
        weights = [float(self.weights.get(name, 1.0)) for name in tasks]
        if self.rule != "linear":
            return weights
        total = math.fsum(weights)
        if total <= 0:
            raise WeftError(
                f"{words('--weights', 'weights')}: a mean needs weights with a sum above 0; found {total:g}"
            )
        return [weight / total for weight in weights]

    def factors(self, tasks: Sequence[str]) -> list[float]:
        """λ·w_t of each task, of a rule whose result is a weighted sum."""
        return [self.scale * weight for weight in self.of_tasks(tasks)]

    def __call__(self, vectors: Sequence[Tensor], tasks: Sequence[str], name: str) -> Tensor:
        """Merge the vectors of one tensor.

        Args:
            vectors: τ_t of the T tasks, of equal shapes.
            tasks: the names of the tasks.
            name: the name of the tensor, on which the random choice of entries depends.
        """
        import torch

        from weft.utils.seeding import generator

        weights = self.of_tasks(tasks)
        if self.rule.startswith("dare"):
            vectors = [
                dropped(vector, self.kept, generator(self.seed, task, name))
                for vector, task in zip(vectors, tasks, strict=True)
            ]
        elif self.rule == "ties":
            vectors = [trimmed(vector, self.kept) for vector in vectors]
        combine: Callable[..., Tensor] = agreeing_mean if self.rule.endswith("ties") else weighted_sum
        return self.scale * combine(torch.stack(list(vectors)), weights)

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON values."""
        density = None if RULES[self.rule].density is None else self.kept
        return {
            "rule": self.rule,
            "weights": dict(self.weights),
            "density": density,
            "scale": self.scale,
            "seed": self.seed if self.rule.startswith("dare") else None,
        }


def weighted_sum(vectors: Tensor, weights: Sequence[float]) -> Tensor:
    """Σ_t w_t·τ_t of [T, …]."""
    return (vectors * _column(vectors, weights)).sum(0)


def trimmed(vector: Tensor, density: float) -> Tensor:
    """A vector of any shape with its ⌊d·n⌋ entries of the largest magnitude; the others are 0."""
    import torch

    if density >= 1:
        return vector
    flat = vector.flatten()
    chosen = flat.abs().topk(int(density * flat.numel())).indices
    kept = torch.zeros_like(flat)
    kept[chosen] = flat[chosen]
    return kept.view_as(vector)


def dropped(vector: Tensor, density: float, draws: Generator) -> Tensor:
    """A vector of any shape, each entry kept with probability d and divided by d, else 0."""
    import torch

    if density >= 1:
        return vector
    kept = torch.rand(vector.shape, generator=draws) < density
    return vector * kept.to(vector) / density


def agreeing_mean(vectors: Tensor, weights: Sequence[float]) -> Tensor:
    """The mean of w_t·τ_t over the entries that have the sign of Σ_t τ_t, of [T, …]; 0 if there are none."""
    import torch

    elected = torch.where(vectors.sum(0) >= 0, 1, -1)
    agrees = vectors.sign() == elected
    return (vectors * _column(vectors, weights) * agrees).sum(0) / agrees.sum(0).clamp(min=1)


def _column(vectors: Tensor, weights: Sequence[float]) -> Tensor:
    """Weights [T, 1, …] for vectors [T, …]."""
    return vectors.new_tensor(weights).view(-1, *[1] * (vectors.dim() - 1))
