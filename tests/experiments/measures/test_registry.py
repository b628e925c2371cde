"""Measures of finished runs."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.recipe_runs import first_cells, two_steps, write_recipe_data
from weft.cli import run as weft_cli
from weft.errors import RunFailed
from weft.experiments.measures import (
    FAILED,
    MEASURED,
    MEASURES,
    VALUES,
    form_of,
    measure_run,
    measured,
    on_pages,
)


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
    pairs = {name: of for name, of in updates.items() if form_of(name) == "pair"}
    maps = ("query", "key", "value", "attention_out", "ffn_in", "ffn_out")
    of_updates = ["query", "value", *(f"{kind}_bias" for kind in maps)]
    assert set(pairs) == {*(f"{name}_pairs" for name in of_updates), "covariance_pairs"}
    assert all(0 < len(of) <= 28 and all(-1 <= x <= 1 for x in of.values()) for of in pairs.values())
    means = [x for name, x in updates.items() if form_of(name) == "number" and VALUES[name] == "similarity"]
    assert len(means) == 4 * len(of_updates)
    assert all(-1 <= mean <= 1 for mean in means)
    of_log = measure_run(["sparsity", "examples_per_second", "speed"], runs["morris-figure2"])
    named = set(chosen) | set(updates) | set(of_log)
    never = {name for name in VALUES if VALUES[name] == "similarity"} - set(updates)
    assert named == set(VALUES) - never - {"speed"}  # of 14 steps there is one line in the log
    assert set(VALUES.values()) == set(MEASURES)
    json.dumps([chosen, updates, of_log], allow_nan=False)


def test_a_run_without_the_log_lines_is_refused(runs):
    with pytest.raises(RunFailed, match="expected sampler mt_uncertainty"):
        measure_run(["first_peak"], runs["morris-figure2"])
    with pytest.raises(RunFailed, match=r"expected train\.measure_uncertainty"):
        measure_run(["uncertainty"], runs["morris-figure2"])


def test_a_measure_that_raises_does_not_stop_the_others(runs, monkeypatch):
    def broken(folder):
        raise ZeroDivisionError("no rows")

    monkeypatch.setitem(MEASURES, "storage", broken)
    lines = []
    taken = measure_run(["data_used", "storage", "composition"], runs["morris-figure2"], lines.append)
    assert taken[MEASURED] == ["composition", "data_used"]
    assert taken[FAILED] == {"storage": "ZeroDivisionError: no rows"}
    assert {"data_used", "composition"} <= set(taken)
    (line,) = lines
    assert line.startswith("measure storage could not be taken: ZeroDivisionError: no rows\nTraceback")
    with pytest.raises(ZeroDivisionError):
        measure_run(["storage"], runs["morris-figure2"])


def test_what_a_record_holds_counts_as_measured():
    assert measured({}) == ()
    assert measured({MEASURED: ["similarity", "of a later version", 3], "engine": "graph"}) == ("similarity",)
    # records of earlier versions have the examples per second, and list no measure
    assert measured({"examples_per_second": 800.0, "start": 1}) == ("examples_per_second",)
    assert measured({MEASURED: "similarity"}) == ()


def test_pages_show_what_the_grid_lists():
    assert on_pages("speed", ["speed"])
    assert not on_pages("speed", ["similarity"])
    assert on_pages("start", [])  # of an action
    shown = [name for name in VALUES if on_pages(name, ["similarity", "sparsity", "covariance"])]
    assert {"query_within", "ffn_in_bias_pairs", "weights_kept", "covariance_pairs"} <= set(shown)
    assert not {"key_within", "query_bias_within", "components_kept", "covariance_self"} & set(shown)
