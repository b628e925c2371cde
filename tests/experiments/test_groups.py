"""Averages of groups of tasks, tables of measures, and scales with another run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.errors import WeftError
from weft.experiments.cells import cells_of
from weft.experiments.grid import Grid, read_grid
from weft.experiments.groups import group_facts
from weft.experiments.measure_tables import measure_tables, measured_means
from weft.experiments.page import markdown_lines
from weft.experiments.records import Record
from weft.experiments.tables import groups_table

RUN = "run: {encoder: minilm, method: full, tasks: {suite: swatch}, train: {steps: 4}}\n"


def grid_of(text: str, *overrides: str) -> Grid:
    return read_grid(RUN + text, "grid.yaml", Path(), overrides)


def record(seed: int, **measures) -> Record:
    metrics = {"a": {"accuracy": 0.5 + seed / 10}, "b": {"f1": 0.7}, "c": {"accuracy": 0.9}}
    return Record(f"{seed:064d}", metrics=metrics, measures=measures)


def test_the_value_of_a_group_is_the_mean_of_its_tasks_in_each_run():
    groups = {"both": ("a", "b", "absent"), "one": ("c",), "none": ("absent",)}
    facts = group_facts(groups, [record(1), record(3)])
    assert set(facts) == {"both", "one"}
    assert facts["both"]["mean"] == pytest.approx(0.7)
    assert facts["both"]["se"] == pytest.approx(0.05)  # 0.65 and 0.75
    assert facts["both"]["tasks"] == ["a", "b"]
    assert facts["one"] == {"mean": pytest.approx(0.9), "se": pytest.approx(0, abs=1e-9), "tasks": ["c"]}
    assert group_facts(groups, [record(1)])["both"]["se"] is None


def test_the_table_of_groups_counts_the_tasks_that_are_there():
    grid = grid_of("groups: {both: [a, b, absent], one: [c]}")
    facts = {"v": {"groups": group_facts(grid.groups, [record(1), record(3)])}, "failed": {"groups": {}}}
    table = groups_table(SimpleNamespace(grid=grid, facts=facts))
    assert table.columns == ("variant", "both (2 tasks)", "one (1 task)")
    assert table.rows == (("v", "70.0 ± 5.0", "90.0 ± 0.0"), ("failed", "–", "–"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("groups: [a]", "groups: expected names with lists"), ("groups: {g: a}", r"groups\.g: expected a list")],
)
def test_mistakes_in_groups(text, expected):
    with pytest.raises(WeftError, match=expected):
        grid_of(text)


def test_measures_are_tables_of_numbers_of_tasks_and_of_pairs():
    grid = grid_of("measures: [data_used, composition, similarity]")
    runs = [
        record(1, data_used=40.0, composition={"a": 25.0, "b": 75.0}, query_pairs={"a × b": 0.5}),
        record(2, data_used=60.0, composition={"a": 35.0, "b": 65.0}, query_pairs={"a × b": 0.3}),
    ]
    facts = {"v": {"measures": measured_means(runs)}, "other": {"measures": {}}}
    numbers, tasks, pairs = measure_tables(SimpleNamespace(grid=grid, facts=facts))
    assert numbers.rows == (("v", "50"), ("other", "–"))
    assert (tasks.title, tasks.columns) == ("composition of each task", ("variant", "a", "b"))
    assert tasks.rows == (("v", "30", "70"),)
    assert pairs.title == "query pairs: v"
    assert pairs.rows == (("a", "–", "0.40"), ("b", "0.40", "–"))
    assert list(markdown_lines(pairs))[2] == "| a | – | 0.40 |"


def test_a_scale_may_have_another_run():
    other = RUN.removeprefix("run: ").strip().replace("full", "lora")
    text = f"scale: small\nscales: {{small: {{run: {other}}}, large: {{}}}}\n"
    assert grid_of(text).raw["method"] == "lora"
    assert grid_of(text, "scale=large").raw["method"] == "full"
    assert cells_of(grid_of(text, "method=frozen"))[0].raw["method"] == "frozen"
