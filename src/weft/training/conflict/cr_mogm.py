"""`cr_mogm`: the weights of another way, smoothed over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, PrivateAttr

from weft.errors import WeftError
from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from torch import Tensor


def _inner(value: object) -> object:
    from weft.training.conflict import build_conflict

    try:
        built = build_conflict(value)
    except WeftError as wrong:
        raise ValueError(str(wrong)) from None
    if isinstance(built, CRMOGM):
        raise ValueError("cr_mogm cannot smooth itself; expected another method, such as upgrad")
    return built.settings()


class CRMOGM(Conflict):
    """λ_t ← α·λ_t + (1 − α)·λ̂_t with λ̂ the weights of another way (Zhou et al., NeurIPS 2022).

    λ_t is kept by task, begins as its first λ̂_t, and stays as it is in steps without the task. λ̂ is relative
    to 1/P, the plain weight, so that steps with more or fewer tasks can be averaged.
    """

    name = "cr_mogm"

    weighting: Annotated[Any, AfterValidator(_inner)] = Field(
        "mgda", description="whose weights are smoothed: a name, or settings with use", validate_default=True
    )
    alpha: float = Field(0.9, ge=0, le=1, description="how much the weights before count")

    _of: Conflict = PrivateAttr()
    _before: dict[str, list[float]] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        """Build the inner one."""
        from weft.training.conflict import build_conflict

        super().model_post_init(context)
        self._of = build_conflict(self.weighting)

    @property
    def whole(self) -> bool:
        """As the inner one."""
        return self._of.whole

    def of(self, names: Sequence[str]) -> Self:
        """The same for these tasks, the inner one too."""
        fresh = super().of(names)
        fresh._of = self._of.of(names)
        return fresh

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """The smoothed weights of what is shared; those of what a task owns are the inner one's."""
        import torch

        now = self._of.merge(gramian, tasks, seed)
        count = len(tasks)
        pairs = torch.stack([now.all, now.some], 1) * count  # [P, 2]
        smooth = []
        for task, pair in zip(tasks, pairs.tolist(), strict=True):
            before = self._before.get(self._name(task), pair)
            pair = [self.alpha * b + (1 - self.alpha) * p for b, p in zip(before, pair, strict=True)]
            self._before[self._name(task)] = pair
            smooth.append(pair)
        weights = torch.tensor(smooth, dtype=torch.float64) / count
        return Merged(weights[:, 0], weights[:, 1], now.own)

    def state(self) -> dict[str, Any]:
        """λ of each task, and what the inner one remembers."""
        return {"before": {name: list(pair) for name, pair in self._before.items()}, "of": self._of.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Remember both."""
        self._before = {name: list(pair) for name, pair in state["before"].items()}
        self._of.load(state["of"])
