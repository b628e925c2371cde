"""Measures of weights: means of blocks, and pairs of tasks."""

from __future__ import annotations

import numpy as np
import pytest

from weft.experiments.measures.of_weights import block_means, pairs_of


def test_means_of_blocks():
    tasks = ["cola", "sst2", "mrpc", "qqp"]  # two single sentences, two paraphrases
    matrix = np.array([[1, 0.6, 0.1, 0.1], [0.6, 1, 0.2, 0.2], [0.1, 0.2, 1, 0.8], [0.1, 0.2, 0.8, 1]])
    means = block_means(tasks, matrix)
    assert means == pytest.approx({"within": 0.7, "between": 0.15, "apart": 0.15, "mean": 2.0 / 6})
    matrix[2, 3] = matrix[3, 2] = np.nan
    assert block_means(tasks, matrix)["within"] == pytest.approx(0.6)
    assert set(block_means(["mine", "cola"], np.eye(2))) == {"mean"}


def test_every_pair_once():
    matrix = np.array([[1.0, 0.1234567, np.nan], [0.1234567, 1.0, -0.5], [np.nan, -0.5, 1.0]])
    pairs = pairs_of(["a", "b", "c"], matrix)
    assert list(pairs) == ["a × b", "a × c", "b × c"]
    assert (pairs["a × b"], pairs["b × c"]) == (0.12346, -0.5)
    assert np.isnan(pairs["a × c"])
