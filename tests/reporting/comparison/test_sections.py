"""The sections of a comparison's page, compared with the numbers they come from."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.outline import Outline
from tests.support.report_grid import large_comparison
from weft.reporting.comparison import comparison_sections
from weft.reporting.comparison.cost import serving_bytes
from weft.reporting.comparison.limits import contaminated
from weft.reporting.comparison_data import SHOWN, read_comparison
from weft.reporting.curve_sets import curves_of_comparison


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return large_comparison(tmp_path_factory.mktemp("grid"), variants=3, tasks=2, seeds=3)


@pytest.fixture
def data(folder):
    return read_comparison(folder)


def texts(data, key):
    return " ".join(text for _, text in Outline(sections(data)[key].body).texts)


def sections(data):
    return {section.key: section for section in comparison_sections(data)}


def changed(data, **facts):
    """The comparison with other facts of all variants."""
    variants = {name: {**of, **facts} for name, of in data.variants.items()}
    return replace(data, results={**data.results, "variants": variants})


def test_scores_are_those_of_the_statistics(data):
    shown = texts(data, "scores")
    for name in data.names:
        for target in (data.average, *data.tasks):
            estimate = data.estimate(name, target)
            assert f"{100 * estimate['mean']:.1f} ± {100 * estimate['se']:.1f}" in shown


def test_published_figures_stand_beside_ours(data):
    shown = texts(data, "published")
    ours = 100 * data.mean("variant 0")
    for text in ("A paper", "80.0", f"{ours:.1f}", f"{ours - 80:+.2f}"):
        assert text in shown


def test_differences_have_intervals_and_verdicts(data):
    shown = texts(data, "contrasts")
    for contrast in data.statistics["contrasts"]:
        low, high = contrast["average"]["interval"]
        assert f"{100 * low:+.2f} to {100 * high:+.2f}" in shown
        assert str(contrast["verdict"]) in shown


def test_claims_have_their_reason(data):
    (claim,) = data.results["claims"]
    shown = texts(data, "claims")
    assert claim["verdict"] in shown
    assert claim["why"] in shown


def test_runs_that_were_trained_again_stand_beside_their_records(data):
    assert "again" not in sections(data)
    run = {"run": "a · seed 1", "then": 0.5, "now": 0.51, "task": "cola", "difference": -0.02, "equal": False}
    run |= {"noise": 0.01, "agrees": True, "machines": ["H200", "CPU"]}
    run["failed"] = None
    same = {**run, "run": "b · seed 2", "now": 0.5, "equal": True, "machines": ["H200", "H200"]}
    none = {**run, "then": None, "now": None, "agrees": False, "failed": "no memory\nat all"}
    shown = texts(replace(data, results={**data.results, "again": [run, same, none]}), "again")
    for text in (
        "a · seed 1",
        "50.00",
        "51.00",
        "cola -2.00",
        "H200 and CPU",
        "equal bit by bit",
        "2 of 3 runs",
    ):
        assert text in shown


def test_curves_are_medians_over_seeds(data):
    curves = curves_of_comparison(data)
    assert list(curves.curves) == ["", *data.tasks]
    curve = curves.curves["task0"]["variant 1"]
    values = sorted(
        100 * point["tasks"]["task0"]["accuracy"]
        for record in data.records["variant 1"].values()
        for point in record.curve
        if point["step"] == curve.steps[-1]
    )
    assert (curve.low[-1], curve.middle[-1], curve.high[-1]) == pytest.approx(values)
    assert set(curve.seeds) == {3}


def test_costs_follow_from_the_records(data):
    record = data.first("variant 2")
    expected = record.parameters["total_ratio"] * record.parameters["encoder"] * 4 / 1e6
    assert serving_bytes(data, "variant 2") == pytest.approx(expected)
    shown = texts(data, "cost")
    for text in ("trained parameters", "seconds of training", "Pareto front"):
        assert text in shown


def test_settings_that_differ_are_listed(data):
    shown = texts(data, "settings")
    assert "train.lr: 0.0002" in shown
    assert "train.seed" not in shown
    assert "batch_size" not in shown  # equal in all


def test_chosen_settings_are_marked_at_the_edge(data):
    tried = [
        {"values": {"train.lr": "1e-4"}, "average": 0.5},
        {"values": {"train.lr": "1e-3"}, "average": 0.6},
    ]
    tuned = changed(data, chosen={"train.lr": "1e-3"}, edges=["train.lr"], tried=tried)
    assert "1e-3 *" in texts(tuned, "settings")
    assert "60.00" in texts(tuned, "settings")
    assert "a better one may lie beyond" in texts(tuned, "limits")


def test_few_seeds_are_a_limit(data):
    assert "no verdict" not in texts(data, "limits")
    few = changed(data, seeds=[1, 2])
    assert "all variants have at most 2 seeds" in texts(few, "limits")


def test_failures_missing_runs_and_machines_are_limits(data):
    bad = changed(data, failed={"2": "it diverged\nmore"}, machines=["a", "b"])
    bad = replace(bad, results={**bad.results, "missing": 4}, lost=1)
    shown = texts(bad, "limits")
    for text in (
        "seed 2 failed",
        "it diverged",
        "4 runs have not been made",
        "1 records are missing",
        "different machines",
    ):
        assert text in shown


def test_texts_that_the_encoder_has_seen_are_marked(data):
    """As if the tasks were GLUE's, and the encoder MiniLM."""
    settings = {"encoder": "minilm", "tasks": [{"suite": "glue"}]}
    records = {
        name: {
            seed: replace(
                record, settings=settings, metrics={"qqp": {"accuracy": 0.5}, "cola": {"matthews": 0.1}}
            )
            for seed, record in seeds.items()
        }
        for name, seeds in data.records.items()
    }
    seen = replace(data, records=records)
    assert list(contaminated(seen)) == ["qqp"]
    assert "is no score on new texts: the encoder was trained on Quora" in texts(seen, "limits")
    statistics = {**data.statistics, "tasks": ["qqp", "cola"]}
    seen = replace(seen, results={**seen.results, "statistics": statistics})
    assert "qqp†" in texts(seen, "scores")
    assert "cola†" not in texts(seen, "scores")


def test_measures_and_the_scatter_of_covariances(data):
    records = {
        name: {
            seed: replace(record, measures={"covariance": {"task0": 0.5, "task1": 0.7}, "data_used": 40.0})
            for seed, record in seeds.items()
        }
        for name, seeds in data.records.items()
    }
    measured = replace(data, records=records)
    # every record has it, and pages show what the grid lists; those of earlier versions did not say what
    assert data.results["measures"] == []
    assert "data used" not in texts(measured, "runs")
    listed = replace(measured, results={**data.results, "measures": ["data_used"]})
    assert "data used" in texts(listed, "runs")
    assert "covariance" not in texts(listed, "runs")
    earlier = {key: value for key, value in data.results.items() if key != "measures"}
    assert "covariance" in texts(replace(measured, results=earlier), "runs")
    section = sections(measured)["covariance"]
    marks = [a for a in Outline(section.body).named("g") if a.get("data-series")]
    assert len(marks) == 4  # two variants against the baseline, two tasks each
    assert "covariance" not in sections(data)


def test_a_folder_of_an_earlier_version_has_tables_without_curves(folder, tmp_path):
    facts = json.loads((folder / "tables.json").read_text())
    del facts["runs"], facts["baseline"]
    (tmp_path / "tables.json").write_text(json.dumps(facts))
    old = read_comparison(tmp_path)
    assert "does not name its records" in texts(old, "curves")
    assert f"{100 * old.mean('variant 0'):.1f} ±" in texts(old, "scores")
    assert "speed" not in sections(old)


def test_damaged_and_missing_records_are_counted(folder, tmp_path):
    facts = json.loads((folder / "tables.json").read_text())
    (tmp_path / "tables.json").write_text(json.dumps(facts))
    (tmp_path / "records").mkdir()
    first, second, *_ = sorted((folder / "records").iterdir())
    (tmp_path / "records" / first.name).write_bytes(first.read_bytes())
    (tmp_path / "records" / second.name).write_bytes(b"damaged")
    data = read_comparison(tmp_path)
    assert data.lost == 8
    assert sum(map(len, data.records.values())) == 1


def test_an_identity_is_never_a_path(folder, tmp_path):
    facts = json.loads((folder / "tables.json").read_text())
    facts["runs"] = {"variant 0": {"1": "../../secret"}}
    (tmp_path / "tables.json").write_text(json.dumps(facts))
    assert read_comparison(tmp_path).lost == 1


def test_the_baseline_and_the_best_are_in_color_first(data):
    variants = {f"v{n}": next(iter(data.variants.values())) for n in range(10)}
    estimates = {name: {"average": {"mean": n / 10}} for n, name in enumerate(variants)}
    statistics = {**data.statistics, "variants": estimates}
    results = {**data.results, "variants": variants, "statistics": statistics, "baseline": "v0"}
    many = replace(data, results=results)
    assert many.shown_first == ["v0", "v9", "v8", "v7", "v6", "v5"][:SHOWN]
    assert sorted(many.looks.values()) == list(range(10))
    assert [many.looks[name] for name in many.shown_first] == list(range(SHOWN))


def test_cautions_of_the_grid_are_limits(data):
    results = {**data.results, "cautions": ["`minilm` has seen <b>some</b> texts."]}
    body = sections(replace(data, results=results))["limits"].body
    assert "<li><code>minilm</code> has seen &lt;b&gt;some&lt;/b&gt; texts.</li>" in body
    assert "cautions" in data.results  # weft compare writes them


def test_the_average_is_explained(data):
    assert "The average is the mean of the tasks' scores." in texts(data, "scores")
    named = {**data.statistics, "average": "glue9"}
    estimates = {name: {**of, "glue9": of["average"]} for name, of in named["variants"].items()}
    shown = texts(
        replace(data, results={**data.results, "statistics": {**named, "variants": estimates}}), "scores"
    )
    assert "The average, glue9, is the mean of mnli accuracy, " in shown


def test_keys_that_are_absent_or_empty_are_no_difference(data):
    """Records of different versions have different keys."""
    first = data.names[0]
    records = dict(data.records)
    records[first] = {
        seed: replace(record, settings={**record.settings, "soft": None, "trackers": [], "momentum": 0})
        for seed, record in records[first].items()
    }
    shown = texts(replace(data, records=records), "settings")
    assert "momentum: 0" in shown
    assert "soft" not in shown
    assert "trackers" not in shown
