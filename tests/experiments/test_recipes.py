"""The recipes: each parses at every scale, its claims resolve, and its run files are accepted."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.more import some_of
from tests.support.paths import ROOT
from tests.support.recipe_runs import RecipeData, all_cells, first_cells, two_steps, write_recipe_data
from weft.config.reading import Reading
from weft.config.run_file import RunFile, read_run
from weft.config.task_file import Host, load_task_file
from weft.encoder.sites import LINEAR, NORM
from weft.errors import WeftError
from weft.evaluation.averages import AVERAGES
from weft.experiments.cells import Cell, cells_of, in_order, variants_of
from weft.experiments.claims import check_claims
from weft.experiments.claims.functions import FUNCTIONS, SERIES_ABOUT
from weft.experiments.grid import Grid
from weft.experiments.measures import VALUES, on_pages
from weft.experiments.recipes import (
    is_recipe,
    load_recipe,
    recipe,
    recipe_names,
    recipe_scales,
    recipe_sections,
    run_count,
)
from weft.methods import METHODS, build_method

KIND = re.compile(rf"^({'|'.join((*LINEAR, *NORM))})_")
SCALED = [(name, scale) for name in recipe_names() for scale in recipe_scales(name)]
FACTS = ("average", "total_ratio", "spread", "data_used", "incremental", "bundled")
"""Columns of published values that are no tasks."""
FINER = {"lora": 3e-3, "lora_bitfit": 3e-3, "lora_bitfit_mtl": 4e-4, "morris": 4e-3, "houlsby": 1e-3}
"""Methods with four rates in `methods`, and the best one of an earlier run, which must not be at the edge."""
LIKE_LORA = ("dora", "hydra", "mtl_lora", "poly", "mhr")
"""Relatives of LoRA, which have its rates in `methods`."""
FURTHER = ("hyperformer", "lora_xs", "road", "vera")
"""Methods with one more rate above those of their kind in `methods`."""

REQUIRED = [
    *("sampling", "methods", "peers", "lora-ranks", "head-start", "head-start-cs224n"),
    *("pals-table1", "pals-table2", "pals-table3", "pals-section5", "pals-curves", "pals-squad-swag"),
    *(f"ca-mtl-table3.{number}" for number in (1, 2, 3, 4, 6, 8, 10)),
    *("ca-mtl-alignment", "ca-mtl-uncertainty", *(f"ca-mtl-figure3.{number}" for number in (4, 5, 6, 7, 8))),
    *("morris-table1", "morris-table2", "morris-figure2", "morris-penalties"),
    *(f"multitask-lora-{what}" for what in ("table1", "table2", "table3", "figure1", "figure2")),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> RecipeData:
    return write_recipe_data(tmp_path_factory.mktemp("recipes"))


def read_cell(cell: Cell, grid: Grid) -> RunFile:
    """The run file of a cell, checked."""
    return read_run(cell.raw, Reading(cell.name, grid.folder), ())


def test_every_table_has_its_recipe():
    assert recipe_names() == sorted(REQUIRED)


@pytest.mark.parametrize(("name", "scale"), SCALED)
def test_a_recipe_parses_and_its_cells_resolve(name, scale):
    grid = load_recipe(name, [f"scale={scale}"])
    variants = [variant.name for variant in variants_of(grid)]
    cells = in_order(all_cells(grid))
    runs = {(cell.variant, cell.seed, tuple(cell.tuned.items())) for cell in cells}
    assert len(runs) == run_count(grid) == recipe(name).runs[scale]
    assert {cell.variant for cell in cells} == set(variants)
    assert len({cell.name for cell in cells}) == len(cells)
    assert "tasks.root=DATA" in grid.about
    check_claims(grid)


@pytest.mark.parametrize("name", recipe_names())
def test_the_default_scale_is_small_with_at_least_three_seeds(name):
    grid = load_recipe(name)
    assert recipe_scales(name)[0] == recipe_sections(name)["scale"] == "small"
    counts_only = grid.scaled and ("train", "steps") in dict(grid.scaled)
    if not counts_only or dict(grid.scaled)["train", "steps"] > 0:
        assert len(grid.seeds) >= 3
    for cell in all_cells(grid):
        assert cell.raw["encoder"] == "minilm"


@pytest.mark.parametrize(("name", "scale"), some_of(SCALED, 15))
def test_published_values_belong_to_variants_and_tasks(name, scale, data):
    grid, cells = first_cells(name, scale, data)
    rows = grid.published.get("rows", {})
    assert not rows or isinstance(grid.published["source"], str)
    everything = {variant.name for variant in variants_of(grid)}
    left_out = {str(rule["variant"]) for rule in grid.exclude if set(rule) == {"variant"}}
    assert set(rows) <= everything | left_out
    for cell in cells:
        if cell.variant not in rows:
            continue
        if "grow" in cell.action:
            tasks = {cell.action["grow"]["tasks"]["suite"]}
        else:
            tasks = {task.name for task in read_cell(cell, grid).tasks}
        for column, value in rows[cell.variant].items():
            assert column in tasks or column in FACTS or column in grid.groups, (cell.variant, column)
            assert isinstance(value, int | float)


@pytest.mark.parametrize(("name", "scale"), some_of(SCALED, 15))
def test_every_run_file_of_a_recipe_is_accepted(name, scale, data, tmp_path):
    grid, cells = first_cells(name, scale, data)
    runs: dict[str, RunFile] = {}
    for cell in in_order(cells):
        for short in (cell, two_steps(cell)):
            if "grow" not in short.action:
                runs[cell.name] = run = read_cell(short, grid)
                assert run.tasks
                continue
            (base,) = short.needs
            host = Host(tmp_path, {t.name: t for t in runs[base].tasks}, runs[base].method, 32)
            file = tmp_path / "task.yaml"
            sections = {key: value for key, value in short.action["grow"].items() if key != "from"}
            file.write_text(yaml.safe_dump(sections), encoding="utf-8")
            assert load_task_file(file, [], host).task.name == sections["tasks"]["suite"]
    if grid.average in AVERAGES:
        for run in runs.values():
            names = {task.name for task in run.tasks}
            assert {part.task for part in AVERAGES[grid.average]} <= names


def test_methods_has_every_registered_method_with_the_rates_of_its_kind():
    grid = load_recipe("methods")
    variants = {variant.name: variant for variant in variants_of(grid)}
    assert set(METHODS) <= set(variants)
    cells = cells_of(grid)
    for name in METHODS:
        method = build_method(name)
        factors = (1, 3, 10) if method.train_encoder == "none" else (1 / 3, 1, 3)
        rates = [cell.raw["train"]["lr"] for cell in cells if cell.variant == name]
        if name in FINER or name in LIKE_LORA:
            assert rates == pytest.approx([rates[0] * factor for factor in (1, 2, 4, 8)])
            assert name in LIKE_LORA or rates[0] < FINER[name] < rates[-1]
        else:
            factors = (*factors, 3 * factors[-1]) if name in FURTHER else factors
            assert rates == pytest.approx([method.default_lr * factor for factor in factors], rel=0.02)
        assert all(cell.raw["method"] == name for cell in cells if cell.variant == name)
    of_lora = [cell.raw["train"]["lr"] for cell in cells if cell.variant == "lora"]
    for name in LIKE_LORA:
        assert [cell.raw["train"]["lr"] for cell in cells if cell.variant == name] == of_lora
        assert (name, "poly" if name == "mhr" else "lora") in grid.contrasts
    assert all(cell.trial and cell.seed == 1 for cell in cells)
    assert grid.report == "test"
    assert grid.raw["tasks"]["halves"] is True
    assert grid.raw["train"]["steps"] == 12000
    assert len(grid.seeds) == 3


@pytest.mark.parametrize("name", recipe_names())
def test_a_small_scale_says_what_must_not_be_concluded(name):
    grid = load_recipe(name)
    texts = load_recipe("sampling").cautions
    if name.startswith("head-start"):
        assert "contrastive loss" in grid.cautions[0]
        return
    assert texts[2] in grid.cautions  # it reproduces no paper
    if name in ("methods", "peers", "pals-table3", "morris-table2", "ca-mtl-table3.1", "ca-mtl-figure3.4"):
        assert grid.cautions == texts  # one wording
    counts_only = dict(grid.scaled).get(("train", "steps")) == 0
    if not counts_only and name != "pals-squad-swag":  # whose files are not there
        assert sum("contrastive loss" in text for text in grid.cautions) == 1
        tasks = {task for cell in all_cells(grid) for task in suites_of(cell)}
        assert (texts[1] in grid.cautions) == ("glue" in tasks)
        assert name == "sampling" or "(offline files)" in grid.title


@pytest.mark.parametrize("name", [name for name in recipe_names() if not name.startswith("head-start")])
def test_a_small_scale_trains_12000_steps_and_chooses_on_one_half(name):
    grid = load_recipe(name)
    if name in ("multitask-lora-figure1", "pals-table1", "multitask-lora-table3"):
        return  # seconds of fewer steps, and counts
    for cell in all_cells(grid):
        train = cell.raw["train"]
        if cell.action and "policy_from" not in cell.action:
            continue
        method = cell.raw["method"]
        gates = method.get("l0") if isinstance(method, dict) else None
        steps = train["steps"] + (gates["steps"] if gates else 0)  # those that find ranks come on top
        assert steps in ((0, 12000) if name == "ca-mtl-table3.3" else (12000,))
        chooses = grid.tune is not None or train.get("evaluate_every", 0) > 0
        if chooses:
            assert cell.raw["tasks"]["halves"] if isinstance(cell.raw["tasks"], dict) else True
            assert grid.report == "test"
        if train.get("evaluate_every", 0) > 0:
            figures = (f"ca-mtl-figure3.{number}" for number in (4, 5, 8))
            assert name in ("pals-curves", "ca-mtl-uncertainty", *figures)
            assert train["evaluate_every"] == 250


def test_all_tasks_in_one_model_are_those_of_the_example(data):
    """23 tasks, each in one group; rows of 256 tokens have as many blocks of attention as those of 128."""
    grid, cells = first_cells("ca-mtl-table3.4", "small", data)
    example = yaml.safe_load((ROOT / "examples" / "everything.yaml").read_text(encoding="utf-8"))
    suites = [entry["suite"] for entry in example["tasks"]]
    of_variant = {cell.variant: read_cell(cell, grid) for cell in cells}
    for cell in cells:
        assert [entry["suite"] for entry in cell.raw["tasks"]] == suites
    grouped = [task for tasks in grid.groups.values() for task in tasks]
    tasks = {task.name for task in of_variant["MTL"].tasks}
    assert len(grouped) == len(set(grouped)) == 23
    assert tasks - set(grouped) == {"record"}  # among the tests' files, not among the offline ones
    method = of_variant["CA-MTL"].method
    assert (method.length, method.blocks) == (256, 3)
    assert of_variant["separate"].training.sampler["use"] == "square_root"
    assert sum("share texts" in caution for caution in grid.cautions) == 1


def suites_of(cell: Cell) -> set[str]:
    """The suites of a run."""
    tasks = cell.raw["tasks"]
    return {entry["suite"] for entry in (tasks if isinstance(tasks, list) else [tasks])}


def test_sampling_compares_seven_samplers_over_five_seeds():
    grid = load_recipe("sampling")
    cells = {cell.variant: cell.raw for cell in cells_of(grid)}
    assert list(cells) == [
        *("proportional", "square root", "annealed", "round robin", "uniform", "temperature 10", "separate"),
    ]
    assert len(grid.seeds) == 5
    for variant, raw in cells.items():
        assert raw["method"] == ("separate" if variant == "separate" else "full")
        assert raw["train"]["steps"] == 12000
        assert raw["encoder"] == "minilm"
        assert len(raw["tasks"]["only"]) == 8
    assert cells["temperature 10"]["train"]["sampler"] == {"use": "temperature", "temperature": 10}


def test_overrides_hold_for_every_run(tmp_path):
    grid = load_recipe("recipe:pals-table3", ["seeds=1", "train.steps=7", f"tasks.root={tmp_path}"])
    assert all(cell.raw["train"]["steps"] == 7 for cell in cells_of(grid))
    assert all(cell.raw["tasks"]["root"] == str(tmp_path) for cell in cells_of(grid))
    assert len({cell.variant for cell in cells_of(grid)}) == 21
    grow = load_recipe("ca-mtl-table3.8", [f"tasks.root={tmp_path}"])
    roots = {cell.action["grow"]["tasks"]["root"] for cell in cells_of(grow) if cell.action}
    assert roots == {str(tmp_path)}


def test_equal_runs_of_two_recipes_are_equal_cells(data):
    """A figure's runs are those of its table, so that their records are found again."""
    _, table = first_cells("multitask-lora-table2", "small", data)
    _, figure = first_cells("multitask-lora-figure2", "small", data)
    assert table == figure
    assert [cell.raw for cell in table] == [cell.raw for cell in figure]


def test_a_recipe_that_does_not_exist_is_refused():
    assert is_recipe("recipe:pals-table3")
    assert not is_recipe("pals-table3")
    with pytest.raises(WeftError, match=r"no recipe 'pals-table4'; did you mean 'pals-table[123]'\?.*known"):
        load_recipe("recipe:pals-table4")
    with pytest.raises(WeftError, match="scale: 'large' does not exist"):
        load_recipe("pals-table3", ["scale=large"])


def test_the_page_lists_every_recipe():
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w.-]+)` \| (.*?) \| (\d+) \| (\d+|–) \| (\d+|–) \|", text, re.M)
    assert sorted(name for name, *_ in listed) == recipe_names()
    for name, paper, small, *others in listed:
        runs = recipe(name).runs
        assert int(small) == runs["small"], name
        for scale, count in zip(("base", "paper"), others, strict=True):
            assert count == str(runs.get(scale, "–")), (name, scale)
        assert paper == recipe(name).paper


def test_the_page_explains_every_function_series_and_measure():
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    for function in FUNCTIONS.values():
        assert f"| `{function.signature}` | {function.about} |" in text
    for name, about in SERIES_ABOUT.items():
        assert f"| `{name}` | {about} |" in text
    for value, measure in VALUES.items():
        # the page has those that pages show, and a pattern for the same of other kinds of maps
        name = value if measure != "similarity" or on_pages(value, [measure]) else KIND.sub("KIND_", value)
        assert re.search(rf"^\| `{measure}` \| .*`{name}`", text, re.M), value
    for kind in (*LINEAR, *NORM):
        assert re.search(rf"^`KIND` is .*`{kind}`", text, re.M), kind
