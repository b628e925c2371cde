"""Equal rows of two recipes are one run, which is trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recipe_runs import RecipeData, write_recipe_data
from weft.experiments.cells import trials_of, variants_of
from weft.experiments.compared import halved
from weft.experiments.plan import Plan
from weft.experiments.recipes import load_recipe


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> RecipeData:
    return write_recipe_data(tmp_path_factory.mktemp("recipes"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("methods", "pals-table3", 56),
        ("methods", "pals-table2", 20),
        ("methods", "morris-table2", 34),
        ("methods", "morris-table1", 31),
        ("methods", "peers", 16),
        ("methods", "lora-ranks", 12),
        ("pals-table3", "pals-section5", 20),
        ("morris-table2", "morris-figure2", 12),
        ("morris-table2", "morris-penalties", 4),
        ("morris-table1", "morris-table2", 22),
        ("ca-mtl-table3.1", "ca-mtl-figure3.6", 10),
        ("ca-mtl-table3.2", "ca-mtl-figure3.6", 10),
        ("ca-mtl-figure3.4", "ca-mtl-uncertainty", 6),
        ("ca-mtl-figure3.4", "ca-mtl-figure3.5", 6),
        ("ca-mtl-figure3.4", "ca-mtl-figure3.8", 3),
        ("ca-mtl-table3.3", "ca-mtl-table3.8", 5),
        ("multitask-lora-table1", "multitask-lora-table2", 48),
    ],
)
def test_equal_rows_of_two_tables_are_trained_once(first, second, shared, data, tmp_path):
    assert len(identities(first, data, tmp_path) & identities(second, data, tmp_path)) == shared


def identities(name: str, data: RecipeData, out: Path) -> set[str]:
    """The identities of all runs of a recipe at scale small; of tuned values the first ones are chosen."""
    grid = halved(load_recipe(name, data.overrides))
    chosen = {v.name: trials_of(grid, v)[0] for v in variants_of(grid)} if grid.tune else None
    return {planned.identity for planned in Plan(grid, out, chosen).cells.values()}
