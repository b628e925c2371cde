"""The scales of recipes: what they have in common, and in which settings they differ."""

from __future__ import annotations

import pytest

from tests.support.recipe_runs import all_cells
from weft.experiments.cells import cells_of
from weft.experiments.grid import Grid
from weft.experiments.recipes import load_recipe, recipe, recipe_names, recipe_scales, recipe_sections

BASE = {
    "pals-table3": 4e-5,
    "morris-table2": None,
    "multitask-lora-table2": None,
    "ca-mtl-table3.1": None,
}
"""The recipes with the scale `base`, and the rate of rows that choose none."""


def tried(grid: Grid) -> dict[str, list[float]]:
    """The learning rates that each variant tries."""
    rates: dict[str, list[float]] = {}
    for cell in cells_of(grid):
        assert cell.trial
        rates.setdefault(cell.variant, []).append(cell.raw["train"]["lr"])
    return rates


@pytest.mark.parametrize("name", BASE)
def test_the_scale_base_has_the_runs_of_small_with_a_larger_encoder_and_lower_rates(name):
    small, base = load_recipe(name), load_recipe(name, ["scale=base"])
    assert (small.seeds, small.claims, small.contrasts) == (base.seeds, base.claims, base.contrasts)
    before, after = tried(small), tried(base)
    assert list(before) == list(after)
    plain = next(axis.values for axis in small.tune.over).values()
    for variant, rates in after.items():
        if len(before[variant]) == 1:
            assert rates == [BASE[name]]
        elif before[variant] == list(plain):
            assert rates == [1e-5, 2e-5, 4e-5, 8e-5]
        else:
            assert rates == pytest.approx([rate / 2 for rate in before[variant]], rel=0.02)
    for one, other in zip(cells_of(small)[:3], cells_of(base)[:3], strict=True):
        assert other.raw["encoder"] == "mpnet-float16"
        for key in ("encoder", "train"):
            del one.raw[key], other.raw[key]
        assert one.raw == other.raw  # tasks, heads and method


def test_a_scale_that_is_like_another_one_belongs_to_its_recipe_alone():
    assert recipe_scales("morris-table2") == ["small", "base", "paper"]
    assert recipe_scales("morris-figure2") == ["small", "paper"]  # like morris-table2
    assert {name for name in recipe_names() if "base" in recipe_scales(name)} == set(BASE)
    assert all("like" not in settings for settings in recipe_sections("morris-table2")["scales"].values())
    assert set(recipe("morris-table2").runs) == {"small", "base", "paper"}


@pytest.mark.parametrize(
    "name", ["ca-mtl-table3.2", "ca-mtl-table3.4", "ca-mtl-figure3.6", "ca-mtl-table3.10"]
)
def test_separate_encoders_of_small_tasks_have_steps_enough(name):
    """Sampled by size, rte would have 88 of 12,000 steps of a run of eight encoders."""
    for scale, sampler in (("small", "square_root"), ("paper", "proportional")):
        cells = all_cells(load_recipe(name, [f"scale={scale}"]))
        separate = [cell for cell in cells if cell.raw["method"] == "separate"]
        assert separate
        assert {cell.raw["train"]["sampler"] for cell in separate} == {sampler}
