"""Two training steps of every variant of every recipe, with a tiny encoder and generated files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.more import some_of
from tests.support.recipe_runs import RecipeData, first_cells, two_steps, write_recipe_data
from weft.cli import run
from weft.config import load_run
from weft.experiments.actions.peers import peer
from weft.experiments.cells import in_order
from weft.experiments.job import Job
from weft.experiments.measures import applies, measure_run
from weft.experiments.recipes import recipe_names

ALWAYS = ("ca-mtl-figure3.5", "morris-figure2", "sampling")


class Silence:
    """Reports nothing."""

    def step(self, done, total, score):
        """See `Reporter`."""

    def say(self, text):
        """See `Reporter`."""


@pytest.fixture(scope="module")
def data(tmp_path_factory, token_cache) -> RecipeData:
    return write_recipe_data(tmp_path_factory.mktemp("recipes"))


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(recipe_names(), ALWAYS))
def test_every_variant_takes_two_steps(name, data, tmp_path):
    grid, cells = first_cells(name, "small", data)
    runs: dict[str, Path] = {}
    for number, cell in enumerate(map(two_steps, in_order(cells))):
        file, out = tmp_path / f"{number}.yaml", tmp_path / str(number)
        if "peer" in cell.action:
            job = Job(cell.name, "1" * 64, "", name, str(tmp_path), cell.raw, cell.action, device="cpu")
            assert peer(job, Silence()).metrics
            continue
        if "grow" in cell.action:
            sections = {key: value for key, value in cell.action["grow"].items() if key != "from"}
            file.write_text(yaml.safe_dump(sections), encoding="utf-8")
            (base,) = cell.needs
            assert run(["task", "add", str(runs[base]), str(file), "--out", str(out), "--quiet"]) == 0
            continue
        file.write_text(yaml.safe_dump(cell.raw), encoding="utf-8")
        assert run(["train", str(file), "--out", str(out), "--quiet"]) == 0, cell.name
        runs[cell.name] = out
        run_file = load_run(out / "run.yaml")
        measure_run([name for name in grid.measures if applies(name, run_file)], out)
