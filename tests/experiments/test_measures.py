"""Measures of finished runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recipe_runs import first_cells, two_steps, write_recipe_data
from weft.cli import run as weft_cli
from weft.errors import RunFailed
from weft.experiments.measures import MEASURES, VALUES, block_means, measure_run, peak_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory, token_cache):
    """Two steps of a run by MT-Uncertainty, and of MORRIS."""
    folder = tmp_path_factory.mktemp("measured")
    data = write_recipe_data(folder)
    made = {}
    for recipe, variant in (("ca-mtl-figure3.5", "MT-Uncertainty"), ("morris-figure2", "Morris L0")):
        _, cells = first_cells(recipe, "small", data)
        cell = two_steps(next(cell for cell in cells if cell.variant == variant))
        cell.raw["train"]["steps"] = 12 if variant == "Morris L0" else 2
        file = folder / f"{recipe}.yaml"
        file.write_text(yaml.safe_dump(cell.raw), encoding="utf-8")
        assert weft_cli(["train", str(file), "--out", str(folder / recipe)]) == 0
        made[recipe] = folder / recipe
    return made


def test_every_measure_returns_the_values_that_claims_may_name(runs):
    names = ["data_used", "composition", "uncertainty", "first_peak", "difficulty"]
    chosen = measure_run(names, runs["ca-mtl-figure3.5"])
    assert sum(chosen["composition"].values()) == pytest.approx(100)
    assert 0 < chosen["data_used"] <= 100
    classify = {"cola", "mnli", "rte", "qqp", "sst2", "qnli", "mrpc"}
    assert set(chosen["difficulty"]) == set(chosen["uncertainty"]) == classify
    assert all(0 <= entropy <= 1 for entropy in chosen["uncertainty"].values())
    assert chosen["first_peak"]
    assert all(step in (0, 1) for step in chosen["first_peak"].values())
    updates = measure_run(["similarity", "storage", "covariance"], runs["morris-figure2"])
    assert set(updates["covariance"]) == {*classify, "stsb"}
    assert 0 < updates["incremental"] < updates["bundled"]
    pairs = {name: updates[name] for name in ("query_pairs", "ffn_in_bias_pairs")}
    assert all(0 < len(of) <= 28 and all(-1 <= x <= 1 for x in of.values()) for of in pairs.values())
    means = [updates[name] for name in updates if name.startswith(("query", "ffn_in")) and name not in pairs]
    assert all(-1 <= mean <= 1 for mean in means)
    named = set(chosen) | set(updates)
    assert named == set(VALUES)
    assert set(VALUES.values()) == set(MEASURES)
    json.dumps([chosen, updates], allow_nan=False)


def test_a_run_without_the_log_lines_is_refused(runs):
    with pytest.raises(RunFailed, match="expected sampler mt_uncertainty"):
        measure_run(["first_peak"], runs["morris-figure2"])
    with pytest.raises(RunFailed, match=r"expected train\.measure_uncertainty"):
        measure_run(["uncertainty"], runs["morris-figure2"])


def test_the_first_peak_is_that_of_the_smoothed_counts():
    steps = np.arange(2000)
    early = 10 * np.exp(-(((steps - 300) / 60) ** 2)) + 8 * np.exp(-(((steps - 1500) / 60) ** 2))
    late = 10 * np.exp(-(((steps - 1200) / 60) ** 2))
    assert abs(peak_of(early) - 300) < 30
    assert abs(peak_of(late) - 1200) < 30
    noise = np.random.default_rng(1).poisson(early)
    assert abs(peak_of(noise) - 300) < 100


@given(st.lists(st.integers(0, 32), min_size=1, max_size=300))
def test_a_peak_is_a_step_of_the_run(counts):
    step = peak_of(np.array(counts, float))
    assert 0 <= step < len(counts)


def test_means_of_blocks():
    tasks = ["cola", "sst2", "mrpc", "qqp"]  # two single sentences, two paraphrases
    matrix = np.array([[1, 0.6, 0.1, 0.1], [0.6, 1, 0.2, 0.2], [0.1, 0.2, 1, 0.8], [0.1, 0.2, 0.8, 1]])
    means = block_means(tasks, matrix)
    assert means == pytest.approx({"within": 0.7, "between": 0.15, "apart": 0.15, "mean": 2.0 / 6})
    matrix[2, 3] = matrix[3, 2] = np.nan
    assert block_means(tasks, matrix)["within"] == pytest.approx(0.6)
    assert set(block_means(["mine", "cola"], np.eye(2))) == {"mean"}
