"""`compare`: from runs to tables."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulated_glue import simulated_run
from tests.support.simulated_runs import World, labelled, runs_of
from weft.errors import WeftError
from weft.evaluation.rows import RunRows, pack, unpack
from weft.experiments.statistics import Contrast, against_baseline, compare
from weft.metrics import METRICS, metric

WORLD = World(by_variant=0.3, shift=0.03, noise=0.3)


def tables(seed=0, accuracies=(0.75, 0.75, 0.9), seeds=4, rows=(200, 120)):
    draw = np.random.default_rng(seed)
    return runs_of(
        {
            name: labelled(draw, WORLD, accuracies, seeds, count)
            for name, count in zip("ab", rows, strict=True)
        }
    )


def test_a_table():
    runs = tables()
    comparison = compare(runs, against_baseline(list(runs), "v0"), resamples=800)
    assert (comparison.average, comparison.tasks) == ("average", ("a", "b"))
    assert list(comparison.variants) == ["v0", "v1", "v2"]
    for variant, estimates in comparison.variants.items():
        assert list(estimates) == ["average", "a", "b"]
        for name, estimate in estimates.items():
            scores = [run.metrics() for run in runs[variant].values()]
            values = [
                np.mean([s[t]["accuracy"] for t in "ab"]) if name == "average" else s[name]["accuracy"]
                for s in scores
            ]
            assert estimate.mean == pytest.approx(np.mean(values))
            assert list(estimate.scores.values()) == pytest.approx(values)
            assert estimate.se**2 == pytest.approx(estimate.se_seeds**2 + estimate.se_rows**2)
            assert estimate.seed_share == pytest.approx(estimate.se_seeds**2 / estimate.se**2)
            low, high = estimate.interval
            assert low < estimate.mean < high
    same, better = comparison.contrasts
    assert (same.verdict, better.verdict) == ("undecided", "better")
    assert better.average.estimate == pytest.approx(
        comparison.variants["v2"]["average"].mean - comparison.variants["v0"]["average"].mean
    )
    assert list(better.tasks) == ["a", "b"]
    assert better.smallest > 0
    assert same.needs is not None
    assert comparison.notes == ()


def test_the_numbers_are_json_and_always_the_same():
    runs = tables()
    contrasts = [Contrast("v1", "v0", margin=0.1, name="as good"), Contrast("v2", "v0")]
    first = compare(runs, contrasts, resamples=300).to_dict()
    packed = {v: {s: unpack(pack(run)) for s, run in seeds.items()} for v, seeds in runs.items()}
    assert json.loads(json.dumps(first, allow_nan=False)) == json.loads(
        json.dumps(compare(packed, contrasts, resamples=300, workers=1).to_dict())
    )
    assert first["contrasts"][0]["name"] == "as good"
    assert first["contrasts"][0]["verdict"] == "held"
    assert set(first["variants"]["v0"]["a"]["scores"]) == {"0", "1", "2", "3"}


def test_few_seeds_get_intervals_and_no_verdict():
    runs = {variant: dict(list(seeds.items())[:2]) for variant, seeds in tables().items()}
    result = compare(runs, [Contrast("v2", "v0")], resamples=300).contrasts[0]
    assert result.verdict is None
    assert result.reason == "needs at least 3 seeds; has 2"
    assert result.average.interval is not None
    assert result.p is None
    one = {variant: {0: seeds[0]} for variant, seeds in tables().items()}
    comparison = compare(one, [Contrast("v2", "v0")], resamples=300)
    assert comparison.variants["v0"]["average"].se_seeds is None
    assert comparison.variants["v0"]["average"].se == comparison.variants["v0"]["average"].se_rows
    assert "v0: one seed; its standard errors have no seed part" in comparison.notes


def test_different_seeds_are_not_paired_and_the_table_says_so():
    runs = tables()
    runs["v2"] = {seed + 10: run for seed, run in runs["v2"].items()}
    comparison = compare(runs, [Contrast("v2", "v0")], resamples=300)
    assert comparison.contrasts[0].average.paired is False
    assert comparison.contrasts[0].verdict == "better"
    assert "not paired by seed" in comparison.notes[0]
    # a variant with one seed less
    del runs["v1"][3]
    result = compare(runs, [Contrast("v1", "v0")], resamples=300).contrasts[0]
    assert (result.average.paired, result.average.seeds) == (False, 3)


def test_a_metric_without_row_statistics_has_no_row_part_and_the_table_says_so(monkeypatch):
    bare = replace(METRICS["accuracy"], rows=None)
    monkeypatch.setitem(METRICS._entries, "accuracy", bare)
    runs = tables()
    comparison = compare(runs, [Contrast("v2", "v0")], resamples=300)
    estimate = comparison.variants["v0"]["average"]
    assert estimate.se_rows is None
    assert estimate.se == estimate.se_seeds
    assert estimate.without_rows == ("a accuracy", "b accuracy")
    assert comparison.notes == (
        "a accuracy, b accuracy: no row statistics; intervals have no row part for these metrics",
    )
    assert comparison.contrasts[0].verdict == "better"


def test_a_variant_without_a_task():
    runs = tables()
    runs["v1"] = {seed: run.only({"a"}) for seed, run in runs["v1"].items()}
    del runs["v2"][0].sets["b"]
    comparison = compare(runs, against_baseline(list(runs), "v0"), resamples=300)
    assert list(comparison.variants["v1"]) == ["a"]
    lacking, fewer = comparison.contrasts
    assert (lacking.verdict, lacking.reason) == (None, "a value of the average is missing")
    assert list(lacking.tasks) == ["a"]
    assert fewer.average.seeds == 3
    assert fewer.tasks["a"].seeds == 4
    assert any(note.startswith("v2: seed 0 lacks a value of the average") for note in comparison.notes)


def test_further_sets_are_resampled_separately():
    """GLUE's average counts both sets of MNLI."""
    runs = {f"v{v}": {s: simulated_run(v, s) for s in range(3)} for v in range(2)}
    comparison = compare(runs, [Contrast("v1", "v0")], "glue9", resamples=60)
    assert comparison.tasks == ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")
    estimate = comparison.variants["v0"]["glue9"]
    assert 0 < estimate.se_rows < 0.02
    assert compare(runs, [], "average", resamples=60).variants["v0"]["average"].mean != estimate.mean


def test_other_rows_cannot_be_compared():
    runs = tables()
    other = tables(rows=(200, 119))
    runs["v1"] = other["v1"]
    with pytest.raises(
        WeftError, match=r"v1, seed 0: b was evaluated on other rows than in v0, seed 0 \(119 and"
    ):
        compare(runs)
    for contrasts, message in (
        ([Contrast("v9", "v0")], "variant 'v9' has no runs"),
        ([Contrast("v0", "v0")], "compared with itself"),
        ([Contrast("v2", "v0", margin=-1.0)], "margin must be 0 or more"),
    ):
        with pytest.raises(WeftError, match=message):
            compare(tables(), contrasts)
    with pytest.raises(WeftError, match="no runs to compare"):
        compare({"v0": {}})


def test_equal_runs_do_not_differ():
    runs = tables()
    runs["v1"] = dict(runs["v0"])
    result = compare(runs, [Contrast("v1", "v0")], resamples=300).contrasts[0]
    assert result.average.interval == (0.0, 0.0)
    assert result.verdict is None
    assert "do not vary" in result.reason


def test_a_metric_of_your_own_needs_no_other_edit(monkeypatch):
    from weft.metrics.rows import Mean

    @metric("labels", rows=Mean(lambda gold, predictions: np.not_equal(gold, predictions)))
    def mistakes(gold, predictions, groups=None):
        return float(np.mean(np.not_equal(gold, predictions)))

    monkeypatch.setitem(METRICS._entries, "mistakes", replace(mistakes, lower_is_better=True))
    draw = np.random.default_rng(0)
    runs = runs_of({"a": labelled(draw, WORLD, (0.7, 0.9), 3, 150, ("mistakes",))})
    result = compare(runs, [Contrast("v1", "v0")], resamples=300).contrasts[0]
    assert result.verdict == "better"  # fewer mistakes
    assert result.average.se_rows > 0


def test_no_torch_is_imported():
    code = "import sys, weft.experiments.statistics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert RunRows({}).metrics() == {}
