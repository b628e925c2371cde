"""Results and tables: the same numbers in every format, and the files that hold them."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.support.tiny_grid import run_here, write_grid
from weft.experiments.compare import TABLES, compare, load_any, written
from weft.experiments.compared import recorded
from weft.experiments.grid import load_grid
from weft.experiments.page import page
from weft.experiments.results import FILE, results_of
from weft.experiments.tables import chosen, notes_of, score, tables_of, to_csv, verdict

pytestmark = pytest.mark.usefixtures("warm_workers")

TEXT = """
seeds: 3
axes: {method: [full, lora]}
variants: {a: {}, b: {train.sampler: uniform}, bad: {train.lr: 1.0e+30}}
exclude: [{variant: bad, method: full}, {variant: b, method: full}]
baseline: a, full
published: {source: a paper, rows: {"a, full": {cat: 71.5, average: 60.0}}}
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory, warm_workers):
    folder = tmp_path_factory.mktemp("tables")
    return run_here(write_grid(folder, TEXT, steps=6), folder / "out", jobs=2)


@pytest.fixture(scope="module")
def results(compared):
    return written(compared, compared.plan.out)


def test_estimates_are_the_metrics_of_the_records(compared, results):
    for variant, seeds in compared.records.items():
        scores = [record.metrics["cat"]["accuracy"] for record in seeds.values()]
        estimate = results.statistics["variants"][variant]["cat"]
        assert list(estimate["scores"].values()) == pytest.approx(scores)
        assert estimate["mean"] == pytest.approx(sum(scores) / 3)


def test_every_variant_has_a_row(results):
    table = tables_of(results)[0]
    assert [row[0] for row in table.rows] == ["a, full", "a, lora", "b, lora", "bad, lora"]
    assert table.columns[:6] == ("variant", "seeds", "cat", "same", "count", "average")
    assert table.rows[3][1:6] == ("0", "–", "–", "–", "–")


def test_contrasts_are_those_of_the_baseline(results):
    table = tables_of(results)[1]
    assert [row[0] for row in table.rows] == ["a, lora − a, full", "b, lora − a, full"]
    assert all("better" in row[3] or "worse" in row[3] or "undecided" in row[3] for row in table.rows)


def test_published_numbers_stand_beside_ours(results):
    table = tables_of(results)[2]
    assert table.columns == ("variant", "cat, published", "cat, ours", "average, published", "average, ours")
    mean = 100 * results.statistics["variants"]["a, full"]["cat"]["mean"]
    assert table.rows[0][1:3] == ("71.5", f"{mean:.1f}")


def test_failures_are_notes(compared, results):
    assert len(compared.failed) == 3
    notes = notes_of(results)
    assert sum("failed: step" in note for note in notes) == 3


def test_files_hold_the_same_numbers(compared, results):
    out = compared.plan.out
    assert (out / TABLES["markdown"]).read_text() == page(results)
    facts = json.loads((out / TABLES["json"]).read_text())
    assert facts["statistics"] == json.loads(json.dumps(results.statistics))
    rows = list(csv.DictReader(io.StringIO((out / TABLES["csv"]).read_text())))
    by_place = {(row["variant"], row["target"]): row for row in rows}
    mean = results.statistics["variants"]["a, lora"]["average"]["mean"]
    assert float(by_place["a, lora", "average"]["mean"]) == mean
    assert to_csv(results) == (out / TABLES["csv"]).read_text()


def test_statistics_are_computed_once(compared, results, monkeypatch):
    monkeypatch.setattr("weft.experiments.results._statistics", lambda *a: pytest.fail("computed again"))
    assert results_of(compared).statistics == json.loads(json.dumps(results.statistics))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"key": 3}'])
def test_damaged_statistics_are_computed_again(compared, results, content):
    file = compared.plan.out / FILE
    before = file.read_bytes()
    file.write_bytes(content)
    assert json.loads(json.dumps(results_of(compared).statistics)) == json.loads(
        json.dumps(results.statistics)
    )
    assert file.read_bytes() == before


def test_a_grid_without_records(tmp_path):
    grid = write_grid(tmp_path, "seeds: 2\n", steps=2)
    nothing = recorded(load_grid(grid), tmp_path / "out")
    found = written(nothing, tmp_path / "out")
    assert found.missing == 2
    assert notes_of(found) == ["2 runs have not been made yet"]
    assert not (tmp_path / "out").exists()


def test_in_python(tmp_path):
    grid = write_grid(tmp_path, "seeds: 2\n", steps=2)
    first = compare(grid, ["seeds=1"], tmp_path / "out", device="cpu", progress=False)
    assert first.facts["run"]["seeds"] == [1]
    read = load_any(load_grid(grid))
    assert compare(read, out=tmp_path / "out", device="cpu", progress=False).facts["run"]["seeds"] == [1, 2]


def test_texts():
    assert score(None) == "–"
    assert score({"mean": 0.5, "se": None}) == "50.0"
    assert score({"mean": 0.5, "se": 0.012}) == "50.0 ± 1.2"
    assert chosen({"chosen": {"train.lr": "0.1"}, "edges": ["train.lr"]}, "train.lr") == "0.1 *"
    assert chosen({"chosen": {}, "edges": []}, "train.lr") == "–"
    assert verdict({"verdict": None, "reason": "needs at least 3 seeds; has 2"}).startswith("none: needs")
    assert (
        verdict({"verdict": "undecided", "needs": {"seeds": 9, "rows": False}})
        == "undecided (needs about 9 seeds)"
    )
    assert verdict({"verdict": "better", "needs": None}) == "better"
