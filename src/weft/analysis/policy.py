"""Learning a fixed policy over tasks from logged rewards, by counterfactual estimation.

Glover and Hokamp 2019 (arXiv 1907.06214) choose tasks by a fixed stochastic policy that is learned off-line
by counterfactual estimation (Bottou et al. 2013): the reward of a different policy is estimated from the logs
of a known random policy, with each reward weighted by how much likelier its action would have been.

**The log.** Between two evaluations is a window: s steps in which n tasks were sampled one after the other,
c_i times task i, each draw independent with probability p_i (the propensity). Its reward is the increase of
the score. Rewards belong to windows, not to draws. The importance weight of a whole window, ∏_i
(π_i/p_i)^{c_i}, is useless beyond a few draws, so rewards are taken to add up over draws. With that
assumption

    1 + G(π),   G(π) = Σ_i π_i·g_i,   g_i = c_i/p_i − n

is an unbiased weight for the reward per step x = reward/s (E g_i = 0; it is the product's first-order part,
the "pseudo-inverse" weight of slates drawn slot by slot, Swaminathan et al. 2017), and so is, with less
variance,

    V̂(π) = Σ_w ω_w·[x_w + (x_w − b_w)·G_w(π)],   ω_w = s_w / Σ s

for any baseline b_w that does not depend on window w's draws: here the mean x of its neighbours in the same
run (two before, two after), which follows the decrease of the rewards during training. V̂ is linear in π, so
each task has a value, q_i = V̂(all draws of task i), and V̂(π) = Σ_i π_i·q_i; V̂ of a logging policy that did
not change is the mean reward that was observed.

**The policy.** Over floor ≤ π_i ≤ clip·p̄_i, Σ π = 1, where p̄ is the mean logging policy,

    π = argmax  Σ_i π_i·q_i − caution·σ·KL(π ‖ p̄),    σ² = mean_i Var(q_i)

that is π_i ∝ p̄_i·exp(q_i/(caution·σ)) kept inside the bounds: a softmax over tasks. It depends on neither
the unit of the reward nor the order of the tasks, stays at p̄ if rewards carry no information, and relies
more on the values as their standard errors decrease.

Everything beyond "a fixed stochastic policy learned off-line by counterfactual estimation" was decided here:
only the paper's abstract and its description in the CA-MTL thesis were available. Decided are the reward, the
window, additivity, the baseline, the softmax around the logging policy, its temperature, the floor, and a
bound on π/p̄ where Bottou et al. clip weights in the estimate (inside it no weight needs clipping).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError

Floats = NDArray[np.float64]

NEIGHBOURS = 2
"""The number of windows on each side whose mean reward is the baseline of a window."""
FOLDS, FEWEST_TO_HOLD_OUT = 10, 4
"""The maximum number of folds of windows that are held out in turn, and the fewest windows for this."""


@dataclass(frozen=True, eq=False)
class Window:
    """The log between two evaluations.

    Attributes:
        steps: s, the number of steps.
        draws: c, how often each task was sampled, [T]; n is their sum.
        share: p, the probability of each task in a draw, [T]; all above 0.
        reward: the increase of the score.
        run: the number of its run; windows of a run are consecutive.
    """

    steps: int
    draws: Floats
    share: Floats
    reward: float
    run: int = 0


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error over windows."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy and the evidence for it; rewards are per step.

    Attributes:
        logging: p̄, the mean policy of the logs, [T].
        policy: π, the learned policy, [T].
        values: q, the reward if every draw were of one task, [T].
        errors: their standard errors, [T].
        observed: the reward under the logging policy.
        estimated: the reward under the learned policy.
        gain: `estimated` − `observed`; its error is smaller than theirs, because they share windows.
        held_out: the same gain for policies that are learned without the windows they are evaluated on.
            `gain` is biased upwards, because its policy is chosen on the same windows. None for too few
            windows.
        effective: the effective sample size, W/(1 + mean G²) of W windows: Kish's (Σω)²/Σω² for the weights
            ω = 1 + G, with their expectation W for Σω, since they may be negative.
        windows: W, the number of windows.
    """

    logging: Floats
    policy: Floats
    values: Floats
    errors: Floats
    observed: Estimate
    estimated: Estimate
    gain: Estimate
    held_out: Estimate | None
    effective: float
    windows: int


class Logs:
    """The windows as arrays.

    Attributes:
        weight: ω, the share of the steps in each window, [W].
        rate: x, the reward per step of each window, [W].
        excess: x − b, [W].
        surplus: g, [W, T].
        logging: p̄, [T].
    """

    def __init__(self, windows: Sequence[Window]) -> None:
        if len(windows) < 2:
            raise WeftError(f"a policy is learned from at least two windows; found {len(windows)}")
        steps = np.array([w.steps for w in windows], np.float64)
        draws = np.stack([w.draws for w in windows]).astype(np.float64)
        share = np.stack([w.share for w in windows]).astype(np.float64)
        if not (share > 0).all():
            raise WeftError("every task must have a probability above 0 in every window; found a share of 0")
        share = share / share.sum(1, keepdims=True)
        self.weight = steps / steps.sum()
        self.rate = np.array([w.reward for w in windows]) / steps
        self.excess = self.rate - _baseline(self.rate, np.array([w.run for w in windows]))
        # the rounding of equal rewards must not be mistaken for a signal
        self.excess[np.abs(self.excess) < 1e-12 * np.abs(self.rate).max()] = 0.0
        self.surplus = draws / share - draws.sum(1, keepdims=True)
        self.logging = self.weight @ share

    def means(self, terms: Floats) -> tuple[Floats, Floats]:
        """Σ ω_w·y_w and its standard error, for terms y [W, …]: two arrays […]."""
        count = len(terms)
        value = self.weight @ terms
        return value, np.sqrt(self.weight**2 @ (terms - value) ** 2 * count / (count - 1))

    def mean(self, terms: Floats) -> Estimate:
        """The same for terms y [W]."""
        value, error = self.means(terms)
        return Estimate(float(value), float(error))

    def values(self) -> tuple[Floats, Floats]:
        """Each task's value over the observed reward, and its standard error, [T] each."""
        return self.means(self.excess[:, None] * self.surplus)

    def gains(self, policy: Floats) -> Floats:
        """(x − b)·G(π) of each window, [W]."""
        gains: Floats = self.excess * (self.surplus @ policy)
        return gains

    def part(self, kept: NDArray[np.bool_]) -> Logs:
        """Return some of the windows; their baselines do not change."""
        subset = object.__new__(Logs)
        subset.weight = self.weight[kept] / self.weight[kept].sum()
        subset.rate, subset.excess, subset.surplus = self.rate[kept], self.excess[kept], self.surplus[kept]
        subset.logging = self.logging
        return subset


def learn_policy(
    windows: Sequence[Window], caution: float = 2.0, clip: float = 4.0, floor: float | None = None
) -> Learned:
    """Learn a policy from the windows of one or several runs with the same tasks.

    Args:
        windows: the windows, in order and grouped by run; each run has at least two.
        caution: how strongly the policy stays at the logging policy: a task whose value is this many standard
            errors above the others' becomes e times as likely.
        clip: the maximum ratio of a task's probability to that of the logging policy, at least 1.
        floor: the minimum probability of a task; by default 0.1/T.
    """
    logs = Logs(windows)
    tasks = logs.surplus.shape[1]
    floor = 0.1 / tasks if floor is None else floor
    if not caution > 0 or not clip >= 1 or not 0 <= floor <= 1 / tasks:
        raise WeftError(
            f"expected caution above 0, clip of 1 or more, and a floor from 0 to 1/T = {1 / tasks:.4g}; "
            f"found caution {caution}, clip {clip}, floor {floor}"
        )
    policy = _best(logs, caution, clip, floor)
    values, errors = logs.values()
    observed = logs.mean(logs.rate)
    terms = logs.gains(policy)
    held_out = np.zeros(len(windows))
    for fold in np.array_split(np.arange(len(windows)), min(FOLDS, len(windows))):
        if len(windows) < FEWEST_TO_HOLD_OUT:
            break
        kept = np.ones(len(windows), bool)
        kept[fold] = False
        held_out[fold] = logs.gains(_best(logs.part(kept), caution, clip, floor))[fold]
    return Learned(
        logging=logs.logging,
        policy=policy,
        values=observed.value + values,
        errors=errors,
        observed=observed,
        estimated=logs.mean(logs.rate + terms),
        gain=logs.mean(terms),
        held_out=logs.mean(held_out) if len(windows) >= FEWEST_TO_HOLD_OUT else None,
        effective=len(windows) / (1 + float(np.mean((logs.surplus @ policy) ** 2))),
        windows=len(windows),
    )


def estimate(windows: Sequence[Window], policy: Floats) -> Estimate:
    """Return V̂(π), the estimated reward per step of a policy, with its standard error.

    Args:
        windows: as in `learn_policy`.
        policy: π, [T]; it must not be chosen on these windows.
    """
    logs = Logs(windows)
    return logs.mean(logs.rate + logs.gains(policy))


def _best(logs: Logs, caution: float, clip: float, floor: float) -> Floats:
    """The policy that maximizes the objective above."""
    values, errors = logs.values()
    spread = float(np.sqrt(np.mean(errors**2)))
    # equal rewards have values and errors of 0: they carry no information
    tilt = values / (caution * spread) if spread > 0 else np.zeros_like(values)
    low = np.full_like(values, floor)
    high = np.minimum(np.maximum(clip * logs.logging, floor), 1.0)
    return _bounded_softmax(np.log(logs.logging) + tilt, low, high)


def _bounded_softmax(scores: Floats, low: Floats, high: Floats) -> Floats:
    """π_i = clip(exp(score_i + t), low_i, high_i) with the t for which Σ π = 1, [T]; Σ low ≤ 1 ≤ Σ high."""
    with np.errstate(divide="ignore"):
        floor, top = np.log(low), np.log(high)
    shifted = scores - scores.max()

    def at(t: float) -> Floats:
        policy: Floats = np.exp(np.clip(shifted + t, floor, top))
        return policy

    # at the lower end every task is at its floor (or as good as 0), at the upper at its top
    below, above = float((np.maximum(floor, -700.0) - shifted).min()), float((top - shifted).max())
    for _ in range(200):
        middle = (below + above) / 2
        below, above = (middle, above) if at(middle).sum() < 1 else (below, middle)
    policy = at(above)
    return policy / policy.sum()


def _baseline(rate: Floats, run: NDArray[np.int64]) -> Floats:
    """The mean rate of a window's neighbours in its run, [W]."""
    baselines = np.empty_like(rate)
    for number in range(len(rate)):
        near = np.arange(max(0, number - NEIGHBOURS), min(len(rate), number + NEIGHBOURS + 1))
        near = near[(near != number) & (run[near] == run[number])]
        if not len(near):
            raise WeftError(f"run {run[number]} has one window; expected at least two per run")
        baselines[number] = rate[near].mean()
    return baselines
