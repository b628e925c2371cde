"""Checks of the labels of a task's splits: shift between splits, order in the file, one label that dominates.

The thresholds are set so that the benchmarks' own splits pass: GLUE, SuperGLUE, SNLI, SciTail and the cs224n
sets give no finding, unless a part of a training set was taken label by label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.checks.report import Finding, Severity
from weft.data.splits.split import Split
from weft.metrics import METRICS
from weft.tasks.kinds import KINDS

CHANCE = 1e-3
"""The largest probability, by chance alone, of a difference that is reported."""
SHIFT = 0.08
"""The smallest distance between the labels of two splits that is reported, beyond what chance explains."""
SORTED = 0.2
"""The share of the stretches of equal labels in a random order below which labels follow the file's order."""
NEARLY_ALL = 0.95
"""The share of one label from which it is reported."""
EVERY_LABEL = ("macro_f1", "matthews")
"""Metrics in which a rare label counts as much as a frequent one."""

Numbers = NDArray[Any]


def label_findings(splits: Mapping[str, Split]) -> Iterator[Finding]:
    """Yield what is odd about the labels of one task.

    Args:
        splits: its splits by name.
    """
    labelled = {name: split for name, split in splits.items() if split.labels is not None and len(split) > 1}
    train = labelled.get("train")
    if train is not None:
        yield from _order(train)
        for name, split in labelled.items():
            if name != "train":
                yield from _shift(train, split)
    for split in labelled.values():
        findings = list(_nearly_constant(split))
        yield from findings
        if findings:
            return  # the other splits most likely have the same label


def _labels(split: Split) -> tuple[NDArray[np.bool_] | None, Numbers | None]:
    """Return which example has which label, [n, C], or the numbers that the labels are, [n, k]."""
    kind = KINDS[split.task.kind]()
    labels: Any = split.labels
    flags = kind.label_flags(labels, split.task)
    if flags is not None or not kind.has_range:
        return flags, None
    return None, np.asarray(labels, float).reshape(len(split), -1)


def _shift(train: Split, other: Split) -> Iterator[Finding]:
    flags, numbers = _labels(train)
    other_flags, other_numbers = _labels(other)
    found = None
    if flags is not None and other_flags is not None:
        found = _shift_of_flags(train, flags, other, other_flags)
    elif numbers is not None and other_numbers is not None:
        found = _shift_of_numbers(train, numbers, other, other_numbers)
    if found is not None:
        message, value = found
        advice = (
            f"a model learns the shares of {train.split}, so its scores on {other.split} suffer; check how "
            "the files were made, or draw both splits from one file: cut: 0.1"
        )
        yield _finding(other, "warning", f"{message}: {advice}", value)


def _shift_of_flags(
    train: Split, flags: NDArray[np.bool_], other: Split, other_flags: NDArray[np.bool_]
) -> tuple[str, float] | None:
    """Compare label shares: the total variation distance ½ Σ|p − q|, or for label sets the largest |p − q|.

    Both are positive by chance; the expected distance of two samples with equal shares is subtracted.
    """
    from scipy.stats import chi2_contingency

    n, m = len(flags), len(other_flags)
    p, q = flags.mean(0), other_flags.mean(0)
    both = (flags.sum(0) + other_flags.sum(0)) / (n + m)
    # E|x| of a normal variable is its deviation times √(2/π)
    chance = np.sqrt(2 / np.pi * both * (1 - both) * (1 / n + 1 / m))
    largest = int(np.abs(p - q).argmax())
    counts = np.stack([flags.sum(0), other_flags.sum(0)])
    if (flags.sum(1) == 1).all() and (other_flags.sum(1) == 1).all():
        distance = float((np.abs(p - q) - chance).sum() / 2)
        table = counts[:, counts.sum(0) > 0]
    else:
        distance = float((np.abs(p - q) - chance)[largest])
        table = np.stack([counts[:, largest], np.array([n, m]) - counts[:, largest]], 1)
    if distance < SHIFT or chi2_contingency(table).pvalue > CHANCE:
        return None
    name = train.task.labels[largest]
    return f"label {name!r}: {p[largest]:.0%} of {train.split}, {q[largest]:.0%} of {other.split}", distance


def _shift_of_numbers(
    train: Split, numbers: Numbers, other: Split, other_numbers: Numbers
) -> tuple[str, float] | None:
    """Compare numbers by the largest difference of their distribution functions (Kolmogorov and Smirnov)."""
    from scipy.stats import ks_2samp

    for column in range(numbers.shape[1]):
        first, second = numbers[:, column], other_numbers[:, column]
        test = ks_2samp(first, second)
        # the mean of Kolmogorov's distribution is 0.87
        distance = float(test.statistic) - 0.87 * np.sqrt(1 / len(first) + 1 / len(second))
        if distance >= SHIFT and test.pvalue <= CHANCE:
            of = f" of output {column + 1}" if numbers.shape[1] > 1 else ""
            means = f"{first.mean():.3g} in {train.split}, {second.mean():.3g} in {other.split}"
            return f"the mean label{of} is {means}", distance
    return None


def _order(split: Split) -> Iterator[Finding]:
    """Find labels that follow the order of the file, by Wald and Wolfowitz's test.

    It counts stretches of equal labels. n labels with the shares p in a random order have 1 + n·(1 − Σp²) of
    them on average, with a variance of at most n/4. Numbers are compared with their median.
    """
    flags, numbers = _labels(split)
    if numbers is not None:
        classes = numbers[:, 0] > np.median(numbers[:, 0])
    elif flags is not None:
        classes = np.unique(flags, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        return
    n = len(classes)
    shares = np.unique(classes, return_counts=True)[1] / n
    runs = 1 + int((classes[1:] != classes[:-1]).sum())
    expected = 1 + n * (1 - float((shares**2).sum()))
    # 3.3 standard deviations: a chance of about `CHANCE` in a short file
    if runs >= SORTED * expected or expected - runs < 3.3 * np.sqrt(n) / 2:
        return
    what = "numbers below or above the median" if numbers is not None else "equal labels"
    message = (
        f"the labels follow the order of the rows: {runs} stretches of {what}, where a random order has "
        f"about {expected:.0f}; weft draws rows at random (training, cut, fraction), but the first or last "
        "rows of this file are no sample of it: shuffle it before you divide it by hand"
    )
    yield _finding(split, "warning", message, runs)


def _nearly_constant(split: Split) -> Iterator[Finding]:
    flags, _ = _labels(split)
    if flags is None:
        return
    shares = flags.mean(0)
    largest = int(shares.argmax())
    share = float(shares[largest])
    if not NEARLY_ALL <= share < 1:  # a constant label has its own finding
        return
    task = split.task
    types = KINDS[task.kind]().answer_types_of(task)
    fit = [name for name in EVERY_LABEL if METRICS[name].fits(types, task.size or 0)]
    name = task.labels[largest]
    message = f"{share:.1%} of the rows have the label {name!r}"
    if task.metrics[0] in fit:
        message += f"; the task's score, {task.metrics[0]}, counts the rare labels too"
        yield _finding(split, "note", message, round(share, 4))
        return
    weights = ", and class_weights: balanced" if "class_weights" in KINDS[task.kind].options else ""
    message += (
        f", so a constant answer has a high {task.metrics[0]}; judge the task by a metric that counts rare "
        f"labels: metrics: [{', '.join(fit)}]{weights}"
    )
    yield _finding(split, "warning", message, round(share, 4))


def _finding(split: Split, severity: Severity, message: str, value: object) -> Finding:
    column = ", ".join(split.task.label_columns)
    return Finding(
        severity, split.task.name, split.split, split.source, None, column, value, message, split.unit
    )
