"""Decisions: the choices that a model makes among labels, tags or candidates, with the scores of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Decisions:
    """D decisions with S options in all; an example may have one decision or several.

    With the temperature T, option i of a decision has the probability exp(s_i/T) / Σ_j exp(s_j/T), j over
    the options of the same decision.

    Attributes:
        unit: what one decision is about: `example`, `label` or `word`.
        scores: the score of each option, a logit, one decision after the other, [S].
        starts: the position of the first option of each decision, [D].
        chosen: the position of the option that the model answers with, [D].
        right: whether each option is right, [S]; each decision has at least one that is.
        example: the number of the example that each decision belongs to, in ascending order, [D].

    Example:
        >>> d = Decisions.of_classes(np.array([[2.0, 0.0], [0.0, 1.0]]), [0, 0])
        >>> d.is_right, d.confidence().round(2)
        (array([ True, False]), array([0.88, 0.73]))
    """

    unit: str
    scores: NDArray[np.float64]
    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    right: NDArray[np.bool_]
    example: NDArray[np.int64]

    @classmethod
    def of_classes(
        cls,
        logits: NDArray[Any],
        gold: Sequence[int] | NDArray[np.int64],
        unit: str = "example",
        example: NDArray[np.int64] | None = None,
    ) -> Decisions:
        """Return one decision among C labels per row; the one with the largest logit is chosen.

        Args:
            logits: [D, C].
            gold: the id of the right label, [D].
            unit: what one decision is about.
            example: the example of each decision, [D]; by default decision i is example i.
        """
        scores = np.asarray(logits, np.float64)
        count, size = scores.shape
        number, starts = np.arange(count), np.arange(count) * size
        right = np.zeros((count, size), bool)
        right[number, np.asarray(gold, np.int64)] = True
        chosen = starts + scores.argmax(-1)
        return cls(
            unit, scores.ravel(), starts, chosen, right.ravel(), number if example is None else example
        )

    @classmethod
    def of_flags(cls, logits: NDArray[Any], gold: NDArray[Any], predicted: NDArray[Any]) -> Decisions:
        """Return one decision per example and label: whether the label holds, σ(logit) against 1 − σ(logit).

        Args:
            logits: [N, C].
            gold: 1 where a label holds, [N, C].
            predicted: 1 where it is predicted, [N, C].
        """
        count, size = logits.shape
        scores = np.stack([np.asarray(logits, np.float64), np.zeros((count, size))], -1)  # [N, C, 2]
        holds = np.asarray(gold) == 1
        starts = 2 * np.arange(count * size)
        chosen = starts + (np.asarray(predicted) != 1).ravel()  # the second option: it does not hold
        right = np.stack([holds, ~holds], -1)
        return cls("label", scores.ravel(), starts, chosen, right.ravel(), np.arange(count).repeat(size))

    @classmethod
    def of_candidates(cls, logits: Sequence[NDArray[Any]], right: Sequence[Sequence[int]]) -> Decisions:
        """Return one decision per example among its candidates, whose number may differ.

        Args:
            logits: the score of each candidate, N arrays.
            right: the indices of the right candidates of each example.
        """
        sizes = np.array([len(x) for x in logits], np.int64)
        starts = np.cumsum(sizes) - sizes
        flags = np.zeros(int(sizes.sum()), bool)
        for start, ids in zip(starts.tolist(), right, strict=True):
            flags[[start + i for i in ids]] = True
        chosen = starts + np.array([int(x.argmax()) for x in logits], np.int64)
        scores = np.concatenate([np.asarray(x, np.float64) for x in logits])
        return cls("example", scores, starts, chosen, flags, np.arange(len(sizes)))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of options of each decision, [D]."""
        return np.diff(self.starts, append=len(self.scores))

    @property
    def is_right(self) -> NDArray[np.bool_]:
        """Whether the chosen option is right, [D]."""
        return self.right[self.chosen]

    def log_probabilities(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """The logarithm of each option's probability, [S]."""
        scaled = self.scores / temperature
        return scaled - self._log_sum_exp(scaled).repeat(self.sizes)

    def confidence(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """The probability of the chosen option, [D]."""
        return np.exp(self.log_probabilities(temperature)[self.chosen]).clip(0, 1)

    def negative_log_likelihood(self, temperature: float = 1.0) -> float:
        """The mean over the decisions of −ln Σ_{right i} p_i; 0 if there are none."""
        if not len(self):
            return 0.0
        scaled = self.scores / temperature
        of_right = self._log_sum_exp(np.where(self.right, scaled, -np.inf))
        return float((self._log_sum_exp(scaled) - of_right).mean())

    def probability(self, examples: int, temperature: float = 1.0) -> NDArray[np.float64]:
        """The product of the chosen options' probabilities of each example, [N].

        This is the probability of the whole answer if the decisions of an example are independent.
        """
        logs = self.log_probabilities(temperature)[self.chosen]
        return np.exp(np.bincount(self.example, logs, minlength=examples)).clip(0, 1)

    def wrong_confidence(self, examples: int, temperature: float = 1.0) -> NDArray[np.float64]:
        """The largest probability of a wrong choice of each example, [N]; 0 if none is wrong."""
        largest = np.zeros(examples)
        np.maximum.at(largest, self.example, np.where(self.is_right, 0.0, self.confidence(temperature)))
        return largest

    def _log_sum_exp(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """ln Σ exp over the options of each decision, [S] → [D]."""
        if not len(self):
            return np.zeros(0)
        peaks = np.maximum.reduceat(values, self.starts)
        return peaks + np.log(np.add.reduceat(np.exp(values - peaks.repeat(self.sizes)), self.starts))
