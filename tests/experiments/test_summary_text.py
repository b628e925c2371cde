"""The words that begin a page: numbers come from the results, and mistakes are found before training."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.claim_results import Results, two
from tests.support.tiny_grid import run_here, write_grid
from weft import cli
from weft.errors import WeftError
from weft.experiments.grid import read_grid
from weft.experiments.packing import pack
from weft.experiments.summary_text import read_summary

GRID = read_grid(
    "run: {encoder: minilm, tasks: {suite: swatch}}\nvariants: {a: {}, 'b, annealed': {train.lr: 1.0e-3}}\n",
    "grid.yaml",
    Path(),
)


def read(tmp_path, text):
    file = tmp_path / "words.md"
    file.write_text(text, encoding="utf-8")
    return read_summary(file, [GRID])


SCORES = st.lists(st.floats(0, 100), min_size=3, max_size=3)


@given(SCORES, SCORES)
def test_numbers_are_means_over_seeds(tmp_path_factory, a, b):
    data = two(a, b)
    data = Results({"a": data.scores["a"], "b, annealed": data.scores["b"]})
    text = "{{average(a)}}, {{ average(a) - average('b, annealed') : +.2f}}\n{{score(a, cola)/2:.3f}} {x}"
    filled = read(tmp_path_factory.mktemp("words"), text).filled({"grid": data})
    mean, other = sum(a) / 3, sum(b) / 3
    found = filled.replace(",", "").split()
    assert found.pop() == "{x}"
    for shown, digits, expected in zip(found, (1, 2, 3), (mean, mean - other, mean / 2), strict=True):
        assert float(shown) == pytest.approx(expected, abs=0.51 * 10**-digits)
    assert found[1][0] in "+-"


def test_what_is_not_there_is_a_dash(tmp_path):
    assert read(tmp_path, "{{average(a)}} and {{score(a, nothing)}}").filled({"grid": Results()}) == "– and –"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fine\n\n{{average(c)}}", r"words\.md, line 3: .*there is no variant 'c'; .*known: a, b, annealed"),
        ("fine\n{{average(a)} is open", r"words\.md, line 2: \{\{ and \}\} must be in pairs"),
        ("{{average(a)}} }}", r"words\.md, line 1: \{\{ and \}\} must be in pairs"),
        ("{{averag(a)}}", r"words\.md, line 1: .*no such function; did you mean 'average'"),
        ("{{}}", r"words\.md, line 1: "),
        ("{{average(a) > 1}}", r"words\.md, line 1: "),
        ("{{measure(a, data_used)}}", r"'data_used' is not measured; expected measures: \[data_used\]"),
    ],
)
def test_mistakes(tmp_path, text, expected):
    with pytest.raises(WeftError, match=f"(?s){expected}"):
        read(tmp_path, text)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(WeftError, match="cannot be read"):
        read_summary(tmp_path / "missing.md", [GRID])
    (tmp_path / "latin.md").write_bytes(b"gr\xfc\xdfe")
    with pytest.raises(WeftError, match="is not UTF-8"):
        read_summary(tmp_path / "latin.md", [GRID])


def test_expressions_about_several_grids_and_a_title(tmp_path):
    other = read_grid(
        "run: {encoder: minilm, tasks: {suite: swatch}}\nvariants: {c: {}}\n", "recipe:pals-curves", Path()
    )
    numbers = "**{{average(a)}}** {{pals-curves: average(c) : .2f}} {{ grid : average(a): +.1f }}"
    text = f"# What to use\n\n{numbers}\n"
    file = tmp_path / "words.md"
    file.write_text(text)
    read = read_summary(file, [GRID, other])
    assert read.title == "What to use"
    data = {
        "grid": two([1.0, 2.0], [0.0, 0.0]),
        "pals-curves": Results({"c": two([3.0, 4.0], [0.0, 0.0]).scores["a"]}),
    }
    assert read.filled(data) == "**1.5** 3.50 +1.5"
    for wrong, expected in (
        ("{{average(c)}}", "no variant 'c'"),
        ("{{pals: average(c)}}", "there is no grid 'pals'; known: grid, pals-curves"),
        ("{{pals-curves: average(a)}}", "no variant 'a'"),
    ):
        file.write_text(f"# Title\n{wrong}")
        with pytest.raises(WeftError, match=rf"words\.md, line 2: .*{expected}"):
            read_summary(file, [GRID, other])


@pytest.mark.usefixtures("warm_workers")
def test_the_command_begins_the_page_with_it(tmp_path, capsys):
    """From records alone, as the pages of results are made; the page names the whole command."""
    file = write_grid(tmp_path, "variants: {a: {}, b: {train.lr: 1.0e-3}}\n", steps=2)
    compared = run_here(file, tmp_path / "out")
    pack(compared.plan, tmp_path / "a.records")
    (tmp_path / "words.md").write_text("Use **a**: {{average(a)}} %.\n")
    call = ["compare", str(file), "--out", str(tmp_path / "again"), "--records", str(tmp_path / "a.records")]
    words = ["--summary", str(tmp_path / "words.md")]
    assert cli.run([*call, *words]) == 2
    assert "--summary begins a page; add --page FILE" in capsys.readouterr().err
    page = tmp_path / "page.md"
    assert cli.run([*call, *words, "--page", str(page)]) == 0
    (record,) = compared.records["a"].values()
    average = 100 * sum(next(iter(metrics.values())) for metrics in record.metrics.values()) / 3
    _, first, second, *_ = page.read_text().split("\n\n")
    assert first == f"Use **a**: {average:.1f} %."
    assert second.startswith("**The highest average is that of ")
    assert "--summary words.md --page page.md" in page.read_text()
