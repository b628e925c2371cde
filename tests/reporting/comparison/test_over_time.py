"""Shares and entropies over time: the numbers of the records, and what damaged ones do."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from tests.support.outline import HOSTILE, Outline, check_page
from tests.support.report_grid import large_comparison
from weft.reporting.comparison import comparison_sections
from weft.reporting.comparison_data import read_comparison
from weft.reporting.page import page


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    return read_comparison(large_comparison(folder, variants=5, tasks=3, seeds=2, over_time=True))


def outline(data, key):
    (section,) = [section for section in comparison_sections(data) if section.key == key]
    return Outline(section.body)


def with_traces(data, trace_of):
    """The comparison with other traces, which follow from the record."""
    records = {
        name: {seed: replace(record, trace=trace_of(record)) for seed, record in seeds.items()}
        for name, seeds in data.records.items()
    }
    return replace(data, records=records)


def pictures(found):
    return [a for a in found.named("svg") if a.get("role") == "img"]


def test_numbers_are_means_and_ranges_over_seeds(data):
    values = [
        100 * entry["examples"]["task1"] / sum(entry["examples"].values())
        for record in data.records["variant 0"].values()
        for entry in record.trace["examples"]
        if entry["step"] == 10
    ]
    shown = f"{fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"
    assert shown in outline(data, "sampling").inside("td")
    values = [
        record.trace["entropy"][-1]["entropy"]["task2"] for record in data.records["variant 4"].values()
    ]
    shown = f"{fmean(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    assert shown in outline(data, "entropy").inside("td")


def test_each_variant_has_a_picture_with_a_line_and_a_band_per_task(data):
    found = outline(data, "entropy")
    assert len(pictures(found)) == 5
    classes = [a.get("class") for _, a in found.elements]
    assert classes.count("line") == 5 * 3
    assert classes.count("band") == 5 * 3
    boxes = found.named("input")
    assert [a["data-series"] for a in boxes] == ["0", "1", "2"]


def test_variants_that_were_trained_on_the_same_have_one_picture(data):
    found = outline(data, "sampling")
    assert len(pictures(found)) == 4
    assert "variant 1, variant 3" in found.inside("figcaption")
    assert any("All the time: task0 16.7" in text for text in found.inside("p"))


def test_the_baseline_and_the_best_are_in_sight(data):
    found = outline(data, "entropy")
    order = [text for tag, text in found.texts if tag in ("figcaption", "summary") and "Numbers" not in text]
    assert order.index("One more variant") == 4
    ranked = sorted(data.names[1:], key=data.mean)
    assert order[-1] == ranked[0]
    assert order[0] == "variant 0"


def test_without_traces_there_are_no_sections(data):
    keys = {section.key for section in comparison_sections(with_traces(data, lambda record: {}))}
    assert not {"sampling", "entropy"} & keys
    halved = with_traces(data, lambda record: {"entropy": record.trace["entropy"]})
    keys = {section.key for section in comparison_sections(halved)}
    assert "entropy" in keys
    assert "sampling" not in keys


@pytest.mark.parametrize("odd", [None, 3, "x", {}, [None, 3, {}, {"step": "x"}, {"step": 1, "entropy": 3}]])
def test_a_damaged_list_is_as_one_that_is_absent(data, odd):
    damaged = with_traces(data, lambda record: {"examples": odd, "entropy": record.trace["entropy"]})
    keys = {section.key for section in comparison_sections(damaged)}
    assert "entropy" in keys
    assert "sampling" not in keys


def test_names_of_strangers_do_nothing(data):
    """Six tasks with hostile names in the traces, and one damaged entry in each."""
    numbers = dict.fromkeys(HOSTILE, 0.5)
    trace = {
        field: [{"step": 10, field: numbers}, {"step": [], field: 3}] for field in ("examples", "entropy")
    }
    hostile = with_traces(data, lambda record: trace)
    found = check_page(page("x", [], comparison_sections(hostile), "y"))
    assert "owned" not in found.ids
    assert HOSTILE[0] in found.inside("span")
