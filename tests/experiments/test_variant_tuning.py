"""Variants with tuned values of their own, new tasks that take the run's data folder, and measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.experiments.cells import cells_of, trials_of, variants_of
from weft.experiments.grid import Grid, read_grid

GRID = """
run: {encoder: minilm, method: full, tasks: {suite: swatch}, train: {steps: 4}}
seeds: 3
tune: {over: {train.lr: [1.0e-5, 1.0e-4], train.warmup: [0.0, 0.1]}, seeds: 2}
variants:
  full: {}
  lora: {method: lora, tune: {train.lr: [1.0e-3, 3.0e-3, 1.0e-2]}}
"""


def grid_of(text: str, *overrides: str) -> Grid:
    return read_grid(text, "grid.yaml", Path(), overrides)


def test_a_variant_tries_its_own_values_and_those_of_the_grid():
    grid = grid_of(GRID)
    full, lora = variants_of(grid)
    assert [trial["train.lr"] for trial in trials_of(grid, full)] == ["1e-05", "1e-05", "0.0001", "0.0001"]
    assert len(trials_of(grid, lora)) == 6  # three rates, two warm-ups
    assert trials_of(grid) == trials_of(grid, full)
    trials = [cell for cell in cells_of(grid) if cell.variant == "lora"]
    assert len(trials) == 12
    assert all(cell.trial for cell in trials)
    assert {cell.raw["train"]["lr"] for cell in trials} == {1e-3, 3e-3, 1e-2}
    assert {cell.raw["train"]["warmup"] for cell in trials} == {0.0, 0.1}
    assert all("tune" not in cell.raw for cell in trials)


def test_the_chosen_value_is_the_variants():
    grid = grid_of(GRID)
    chosen = {"lora": {"train.lr": "0.003", "train.warmup": "0.1"}}
    final = [cell for cell in cells_of(grid, chosen) if not cell.trial]
    assert [cell.variant for cell in final] == ["lora"] * 3
    assert {(cell.raw["train"]["lr"], cell.raw["train"]["warmup"]) for cell in final} == {(3e-3, 0.1)}


def test_values_of_a_variant_may_have_labels_and_axes_beside_them():
    grid = grid_of(
        "run: {encoder: minilm, tasks: {suite: swatch}}\n"
        "seeds: 1\n"
        "axes: {train.sampler: [uniform, proportional]}\n"
        "tune: {over: {train.lr: {low: 1.0e-5, high: 1.0e-4}}}\n"
        "variants: {full: {}, lora: {method: lora, tune: {train.lr: {low: 1.0e-3, high: 1.0e-2}}}}\n"
    )
    rates = {(cell.variant, cell.tuned["train.lr"]): cell.raw["train"]["lr"] for cell in cells_of(grid)}
    assert rates["lora, uniform", "high"] == rates["lora, proportional", "high"] == 1e-2
    assert rates["full, uniform", "low"] == 1e-5


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("train.lr: [1.0e-3, 3.0e-3, 1.0e-2]", "train.eps: [1.0e-8]"),
            "the grid does not tune it; .*train.lr",
        ),
        (("tune: {train.lr: [1.0e-3, 3.0e-3, 1.0e-2]}", "tune: 3"), "variants.lora.tune: expected keys of"),
        (("tune: {over", "unused: {over"), "variants.lora.tune: the grid has no tune"),
        (("[1.0e-3, 3.0e-3, 1.0e-2]", "[1.0e-3, 1.0e-3]"), "two values have the label '0.001'"),
        (("[1.0e-3, 3.0e-3, 1.0e-2]", "[]"), "variants.lora.tune.train.lr: expected a list of values"),
    ],
)
def test_mistakes_in_a_variants_values(change, expected):
    with pytest.raises(WeftError, match=expected):
        grid_of(GRID.replace(*change))


def test_a_new_task_takes_the_data_folder_of_the_run():
    text = (
        "run: {encoder: minilm, method: ca_mtl, tasks: [{suite: glue}, {suite: squad}]}\n"
        "variants:\n"
        "  base: {}\n"
        "  suite: {grow: {from: base, tasks: {suite: scitail}}}\n"
        "  elsewhere: {grow: {from: base, tasks: {suite: scitail, root: there}}}\n"
        "  own: {grow: {from: base, tasks: {mine: {train: mine.csv}}}}\n"
    )
    base, suite, elsewhere, own = cells_of(grid_of(text, "tasks.root=data"))
    assert [entry["root"] for entry in base.raw["tasks"]] == ["data", "data"]
    assert suite.action["grow"]["tasks"] == {"suite": "scitail", "root": "data"}
    assert elsewhere.action["grow"]["tasks"]["root"] == "there"
    assert own.action["grow"]["tasks"] == {"mine": {"train": "mine.csv"}}
    without = cells_of(grid_of(text))[1]
    assert "root" not in without.action["grow"]["tasks"]


def test_measures_are_checked():
    base = "run: {encoder: minilm, tasks: {suite: swatch}}\n"
    assert grid_of(base).measures == ()
    assert grid_of(base + "measures: [storage, similarity, storage]").measures == ("storage", "similarity")
    with pytest.raises(WeftError, match=r"measures.0: 'storag' does not exist; did you mean 'storage'\?"):
        grid_of(base + "measures: [storag]")
    with pytest.raises(WeftError, match="measures: expected a list"):
        grid_of(base + "measures: storage")
