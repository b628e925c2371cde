"""Heat maps of the tasks' updates: means over seeds, the paper's order, and pairs of another form."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from tests.support.outline import HOSTILE, Outline, check_page
from tests.support.report_grid import large_comparison
from weft.experiments.measures.of_weights import TIMES
from weft.reporting.comparison import comparison_sections
from weft.reporting.comparison.similarity import MOST, mean_pairs, task_blocks
from weft.reporting.comparison_data import read_comparison
from weft.reporting.page import page

TASKS = ("mnli", "sst2", "qqp", "cola", "rte")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    return read_comparison(large_comparison(folder, variants=3, tasks=TASKS, seeds=2, over_time=True))


def outline(data):
    (section,) = [section for section in comparison_sections(data) if section.key == "similarity"]
    return Outline(section.body)


def measured(data, measures):
    records = {
        name: {seed: replace(record, measures=measures) for seed, record in seeds.items()}
        for name, seeds in data.records.items()
    }
    return replace(data, records=records)


def test_cells_are_means_over_seeds(data):
    name = f"qqp{TIMES}sst2"
    values = [record.measures["query_pairs"][name] for record in data.records["variant 1"].values()]
    mean = mean_pairs(data, "variant 1", "query_pairs")[frozenset(("qqp", "sst2"))]
    assert mean == pytest.approx(fmean(values))
    shown = f"{mean:.2f}".replace("-", "−")
    assert {f"qqp, sst2: {shown}", f"sst2, qqp: {shown}"} <= set(outline(data).inside("title"))


def test_each_variant_has_the_maps_that_were_measured(data):
    found = outline(data)
    assert found.inside("h3") == ["Weights of the query map", "Biases of the first feed-forward map"]
    # variant 1 has no biases
    captions = ["variant 0", "variant 1", "variant 2", "variant 0", "variant 2"]
    assert found.inside("figcaption") == captions
    cells = [a for a in found.named("rect") if "cell" in (a.get("class") or "")]
    assert len(cells) == 5 * (5 * 5 - 5)  # none for a task with itself


def test_tasks_stand_in_the_order_of_the_paper_or_of_the_grid(data):
    assert task_blocks(data, TASKS) == [["cola", "sst2"], ["qqp"], ["mnli", "rte"]]
    assert task_blocks(data, ("qqp", "new", "sst2")) == [["sst2", "qqp", "new"]]
    assert task_blocks(data, ("rte", "mnli")) == [["mnli", "rte"]]  # of one kind


def test_means_within_and_between_kinds_are_in_words(data):
    pairs = mean_pairs(data, "variant 0", "query_pairs")
    within = fmean(pairs[frozenset(pair)] for pair in (("cola", "sst2"), ("mnli", "rte")))
    assert any(
        f"Mean within a kind of task {within:.2f}, between" in text for text in outline(data).inside("p")
    )


@pytest.mark.parametrize(
    "odd",
    [3, [], {"a": 1.0}, {f"a{TIMES}a": 1.0}, {f"a{TIMES}b{TIMES}c": 1.0}, {f"a{TIMES}b": None}]
    + [{f"a{TIMES}b": value} for value in ("x", 7.0, 10**400, [1])],
)
def test_pairs_of_another_form_are_left_out(data, odd):
    damaged = measured(data, {"query_pairs": odd})
    assert "similarity" not in {section.key for section in comparison_sections(damaged)}
    good = {**(odd if isinstance(odd, dict) else {}), f"c{TIMES}d": 0.5}
    assert mean_pairs(measured(data, {"query_pairs": good}), "variant 0", "query_pairs") == {
        frozenset("cd"): 0.5
    }


def test_very_many_tasks_are_not_drawn(data):
    pairs = {f"t{n}{TIMES}t{n + 1}": 0.5 for n in range(MOST)}
    found = outline(measured(data, {"query_pairs": pairs}))
    assert f"{MOST + 1} tasks are too many for a picture: at most {MOST} are drawn." in found.inside("p")
    assert found.named("svg") == []


def test_names_of_strangers_do_nothing(data):
    hostile = measured(data, {"query_pairs": {f"{HOSTILE[0]}{TIMES}{name}": 0.5 for name in HOSTILE[1:]}})
    found = check_page(page("x", [], comparison_sections(hostile), "y"))
    assert "owned" not in found.ids
    assert any(HOSTILE[0] in text for text in found.inside("th"))
