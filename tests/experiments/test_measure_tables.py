"""The measures of a grid as tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.experiments.grid import read_grid
from weft.experiments.measure_tables import MOST_MATRICES, measure_tables, measured_means
from weft.experiments.page import section
from weft.experiments.records import Record
from weft.experiments.results import Results

MEASURES = {
    "query_within": 0.5,
    "query_pairs": {"a × b": 0.25},
    "key_within": 0.5,
    "key_pairs": {"a × b": 0.1},
    "composition": {"a": 40.0, "b": 60.0},
    "components_kept": {"0/query weights": 3.0},
}


def results_of(variants: int, measures: str) -> Results:
    names = [f"v{number}" for number in range(variants)]
    made = ", ".join(f"{name}: {{}}" for name in names)
    text = f"run: {{encoder: minilm, tasks: {{suite: swatch}}}}\nvariants: {{{made}}}\nmeasures: {measures}"
    means = measured_means([Record(identity="0" * 64, measures=MEASURES)])
    return Results(read_grid(text, "grid.yaml", Path()), {}, {name: {"measures": means} for name in names}, 0)


def test_means_are_of_everything_that_was_measured():
    other = {**MEASURES, "query_within": 0.7, "query_pairs": {"a × b": 0.75}}
    records = [Record(identity="0" * 64, measures=measures) for measures in (MEASURES, other)]
    means = measured_means(records)
    assert set(means) == set(MEASURES)
    assert means["query_within"] == pytest.approx(0.6)
    assert means["query_pairs"] == {"a × b": 0.5}


def test_tables_show_what_the_grid_lists():
    assert measure_tables(results_of(2, "[speed]")) == []
    (composition,) = measure_tables(results_of(2, "[composition, sparsity]"))
    assert composition.columns == ("variant", "a", "b")
    means, *matrices = measure_tables(results_of(2, "[similarity]"))
    assert means.columns == ("variant", "query within")
    assert [table.title for table in matrices] == ["query pairs: v0", "query pairs: v1"]
    assert matrices[0].rows == (("a", "–", "0.25"), ("b", "0.25", "–"))


@pytest.mark.parametrize(
    ("variants", "note"),
    [
        (MOST_MATRICES, ""),
        (MOST_MATRICES + 1, "that of 1 other variant is in tables.json"),
        (20, "those of 17 other variants are in tables.json"),
    ],
)
def test_matrices_are_printed_of_a_few_variants(variants, note):
    _, *matrices = measure_tables(results_of(variants, "[similarity]"))
    assert [table.title for table in matrices] == [f"query pairs: v{n}" for n in range(3)]
    assert [bool(table.note) for table in matrices] == [False, False, bool(note)]
    text = section(matrices[-1])
    assert note in matrices[-1].note
    assert text.endswith(f"\n\n{matrices[-1].note}" if note else "|")
