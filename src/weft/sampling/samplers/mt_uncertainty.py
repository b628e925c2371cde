"""`mt_uncertainty`: train on the examples that the model is least certain about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, PositiveInt

from weft.errors import WeftError, did_you_mean
from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class MtUncertainty(Sampler):
    """Each task's next batch is a candidate; the B most uncertain of all candidates are trained on.

    (CA-MTL, MT-Uncertainty.) The plan gives the candidates; the choice among them depends on the weights
    being trained. Candidates that are not chosen are skipped until the task's next epoch.

    A step with T tasks measures T·B candidates before it trains on B examples. `every`, `candidates` and
    `exit_layer` make this cheaper, and can be combined.
    """

    name = "mt_uncertainty"
    summary = "the model chooses the examples that it is least certain about (CA-MTL; see below)"
    chooses: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("every", "candidates", "exit_layer")

    rule: Literal["code", "paper"] = Field(
        "code",
        description="how candidates are scored: by the released code (uncertainty × the task's mean over the "
        "largest task's mean) or by the paper's equation (uncertainty)",
    )
    measure: Literal["entropy", "margin", "raw_entropy"] = Field(
        "entropy",
        description="the uncertainty: normalized entropy, 1 − the margin between the two likeliest, or "
        "entropy that is not normalized by the number of labels",
    )
    proxy: dict[str, str] = Field(
        {}, description="for tasks without such a measure, the task whose scores they use: {stsb: mrpc}"
    )
    dropout: bool = Field(
        True, description="whether candidates are scored with dropout, as the released code does"
    )

    every: PositiveInt = Field(
        1,
        description="the model chooses in every k-th step; the steps between train on as many examples per "
        "task as the last choice took, the next ones of each task, unmeasured",
    )
    candidates: PositiveInt | None = Field(
        None, description="candidates per task and step; null: as many as the batch size"
    )
    exit_layer: PositiveInt | None = Field(
        None,
        description="number of encoder blocks that run to measure candidates: the heads read the output of "
        "the last of them; null: all blocks",
    )

    def offered(self, batch_size: int, names: Sequence[str]) -> int:
        """The number of candidates per task and step; all tasks together must fill a batch.

        Args:
            batch_size: the number of examples of a step.
            names: the names of the tasks, [T].
        """
        if self.candidates is None:
            return batch_size
        if self.candidates * len(names) < batch_size:
            raise WeftError(
                f"sampler.candidates: {self.candidates} of each of {len(names)} tasks are fewer than the "
                f"{batch_size} examples of a step (batch_size); expected at least "
                f"{-(-batch_size // len(names))}, or null"
            )
        return self.candidates

    def check(self, names: Sequence[str]) -> None:
        """Refuse proxies with names that are not tasks of the run."""
        for name in (name for pair in self.proxy.items() for name in pair):
            if name not in names:
                raise WeftError(
                    f"sampler.proxy: {name!r} is not a task of this run; {did_you_mean(name, names)}"
                )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment: all tasks have equally many candidates, except for short batches."""
        import numpy as np

        from weft.sampling.plan.choice import Chance, Segment

        return [Segment(0, steps, Chance(np.full(len(sizes), 1 / len(sizes))))]
