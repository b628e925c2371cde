"""Grids: what is read, and one clear message for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.experiments.cells import variants_of
from weft.experiments.grid import load_grid, read_grid

GOOD = """
title: a grid
run: {encoder: minilm, tasks: {suite: swatch}, train: {steps: 5}}
"""


def grid(text="", *overrides):
    return read_grid(GOOD + text, "grid.yaml", Path(), overrides)


def test_defaults():
    read = grid()
    assert (read.title, read.seeds, read.report, read.average, read.keep) == (
        "a grid",
        (1,),
        "validation",
        "average",
        False,
    )
    assert [variant.name for variant in variants_of(read)] == ["run"]


def test_everything():
    read = grid(
        """
about: what it is for
seeds: [3, 5]
axes:
  method: [full, {use: lora, rank: 4}]
  train.lr: {small: 1.0e-5, large: 1.0e-3}
variants:
  plain: {}
  uniform: {train.sampler: uniform}
exclude: [{variant: uniform, method: full}]
baseline: plain, full, small
contrasts: [["plain, full, small", "plain, full, large"]]
claims: ["average('plain, full, small') > 0", {text: it is so, test: "average('plain, full, small') > 1"}]
average: pals_dev
keep: true
published: {source: a paper, rows: {"plain, full, small": {rte: 71.2}}}
"""
    )
    assert read.seeds == (3, 5)
    assert read.claims[1].text == "it is so"
    names = [variant.name for variant in variants_of(read)]
    assert names == [
        "plain, full, small",
        "plain, full, large",
        "plain, lora rank=4, small",
        "plain, lora rank=4, large",
        "uniform, lora rank=4, small",
        "uniform, lora rank=4, large",
    ]


def test_a_base_beside_the_grid(tmp_path):
    (tmp_path / "run.yaml").write_text("encoder: minilm\ntasks: {suite: swatch}\n")
    (tmp_path / "grid.yaml").write_text("base: run.yaml\n")
    read = load_grid(tmp_path / "grid.yaml")
    assert read.raw["encoder"] == "minilm"
    assert read.folder == tmp_path
    assert read.title == "grid"


def test_a_preset_as_base():
    assert read_grid("base: quickstart", "grid.yaml", Path()).raw["method"] == "full"


def test_overrides_of_the_grid_and_of_its_runs():
    read = grid("seeds: 5\n", "seeds=2", "train.steps=3", "average=glue9")
    assert read.seeds == (1, 2)
    assert read.average == "glue9"
    assert read.overridden == ((("train", "steps"), 3),)


def test_scales_change_runs_and_the_grid():
    text = "scales: {small: {train.steps: 2, seeds: 2}, paper: {train.steps: 900, seeds: 9}}\nscale: small\n"
    assert grid(text).scaled == ((("train", "steps"), 2),)
    assert len(grid(text).seeds) == 2
    assert len(grid(text, "scale=paper").seeds) == 9
    assert len(grid(text, "scale=paper", "seeds=1").seeds) == 1


MALFORMED = {
    "colour: red": "colour: no such key",
    "train: {steps: 3}": "settings of runs belong under run",
    "base: quickstart": "base or run, not both",
    "base: 3": "base: expected the name of a run file",
    "seeds: 0": "seeds: expected the number of seeds",
    "seeds: many": "seeds: expected the number of seeds",
    "seeds: [1, 1]": "names a seed twice",
    "seeds: []": "seeds: expected the number of seeds",
    "seeds: true": "seeds: expected the number of seeds",
    "axes: [method]": "axes: expected keys of the run file with their values",
    "axes: {}": "axes: expected keys of the run file with their values",
    "axes: {colour: [1]}": "axes.colour: no such section of a run file",
    "axes: {method: full}": "axes.method: expected a list of values",
    "axes: {method: []}": "axes.method: expected a list of values",
    "axes: {method: [full, full]}": "two values have the label 'full'",
    "axes: {train.seed: [1, 2]}": "seeds are no axis",
    "variants: [a, b]": "variants: expected names with settings",
    "variants: {a: lora}": "variants.a: expected settings",
    "variants: {a: {methods: lora}}": "variants.a.methods: no such section of a run file; did you mean",
    "variants: {a: {train.seed: 3}}": "the seed is no setting of a variant",
    "variants: {a: {grow: {from: b}, assemble: [b]}}": "grow and assemble: expected one of them",
    "exclude: {variant: a}": "exclude: expected a list",
    "exclude: [a]": "exclude.0: expected labels by axis",
    "exclude: [{methd: full}]": "'methd' is no axis",
    "tune: {train.lr: [1]}": "tune: expected {over:",
    "tune: {over: {train.lr: [1, 2]}, seeds: 3}": "tune.seeds: expected 1 to 1",
    "report: train": "report: 'train' does not exist",
    "average: 3": "average: expected a text",
    "contrasts: [[a, a]]": "expected two different variants",
    "contrasts: a": "contrasts: expected pairs of variants",
    "claims: {a: b}": "claims: expected a list",
    "claims: [3]": "claims.0: expected {text: …, test: …}",
    "keep: maybe": "keep: expected true or false",
    "scale: small": "the grid has no scales",
    "scales: {small: 3}": "scales: expected names with settings",
    "scales: {small: {}}": "scales: write scale: NAME, one of small",
    "scales: {small: {}}\nscale: smal": "'smal' does not exist; did you mean",
    "published: 3": "published: expected names with values",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_mistakes(text):
    with pytest.raises(WeftError) as wrong:
        grid(text)
    assert MALFORMED[text] in str(wrong.value)
    assert str(wrong.value).startswith("grid.yaml has 1 mistake:\n  line ")


def test_all_mistakes_at_once_with_their_lines():
    with pytest.raises(WeftError, match="has 3 mistakes") as wrong:
        grid("seeds: 0\nreport: x\nkeep: 1\n")
    assert [line.split(",")[0] for line in str(wrong.value).splitlines()[1:]] == [
        "  line 4",
        "  line 5",
        "  line 6",
    ]


def test_neither_base_nor_run():
    with pytest.raises(WeftError, match="base: expected a run file or a preset"):
        read_grid("seeds: 2", "grid.yaml", Path())


def test_no_file(tmp_path):
    with pytest.raises(WeftError, match=r"there is no grid .* weft show recipes"):
        load_grid(tmp_path / "grid.yaml")


def test_a_base_that_does_not_exist():
    with pytest.raises(WeftError, match="there is no run file 'quickstrt' and no preset"):
        read_grid("base: quickstrt", "grid.yaml", Path())


@pytest.mark.parametrize("override", ["train.steps", "train.steps={", "seeds=x"])
def test_mistakes_of_overrides(override):
    with pytest.raises(WeftError, match="command line"):
        grid("", override)
