"""`weft show curves`: tables, JSON and pictures of runs and of comparisons."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.support.outline import HOSTILE, check_page
from tests.support.report_grid import large_comparison
from tests.support.report_runs import TASKS, write_run_folder
from weft import cli

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    return large_comparison(tmp_path_factory.mktemp("grid"), variants=2, tasks=2, seeds=3)


def show(capsys, *words):
    assert cli.run(["show", "curves", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_the_table_has_first_best_last_and_kept(tmp_path, capsys):
    run = write_run_folder(tmp_path / "first")
    lines = show(capsys, run, "--task", "rte").splitlines()
    assert lines[1].split() == [
        "task",
        "series",
        "first",
        "best",
        "at",
        "step",
        "last",
        "at",
        "step",
        "kept",
        "step",
    ]
    assert lines[2].split() == ["rte", "first", "65.0", "75.0", "200", "75.0", "200", "150"]


def test_json_has_every_point(tmp_path, capsys):
    runs = [write_run_folder(tmp_path / name) for name in ("a", "b")]
    facts = json.loads(show(capsys, *runs, "--json"))["tasks"]
    assert list(facts) == ["average", *TASKS]
    assert list(facts["rte"]) == ["a", "b"]
    assert facts["rte"]["a"]["steps"] == [50, 100, 150, 200]
    assert facts["rte"]["a"]["median"][-1] == pytest.approx(75.0)
    assert facts["rte"]["a"]["kept"] == 150


def test_a_comparison_has_medians_over_seeds(compared, capsys):
    facts = json.loads(show(capsys, compared, "--json"))["tasks"]
    assert set(facts["task0"]["variant 0"]["seeds"]) == {3}
    curve = facts["task0"]["variant 0"]
    assert all(
        low <= mid <= high
        for low, mid, high in zip(curve["low"], curve["median"], curve["high"], strict=True)
    )


@pytest.mark.parametrize("tasks", [TASKS, HOSTILE])
def test_pictures(tmp_path, capsys, tasks):
    runs = [write_run_folder(tmp_path / name, tasks) for name in ("a", "b")]
    for ending in ("svg", "html"):
        out = show(capsys, *runs, "--plot", tmp_path / f"curves.{ending}")
        assert f"written: {tmp_path / f'curves.{ending}'}" in out
    tree = ElementTree.fromstring((tmp_path / "curves.svg").read_text())
    charts = [e for e in tree.iter(f"{SVG}svg") if "hover" in (e.get("class") or "")]
    assert len(charts) == 1 + len(tasks)
    assert all(len(list(chart.iter(f"{SVG}path"))) == 2 for chart in charts)
    # equal runs make equal files
    before = (tmp_path / "curves.svg").read_bytes()
    show(capsys, *runs, "--plot", tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_bytes() == before
    outline = check_page((tmp_path / "curves.html").read_text())
    assert len(outline.named("figure")) == 1 + len(tasks)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["r", "--plot", "x.png"], "--plot x.png: expected a name that ends in .svg or .html"),
        (["r", "--plot", "no/x.svg"], "there is no folder no"),
        (["r", "--task", "ret"], "--task 'ret': did you mean 'rte'?"),
        (["nothing"], "there is no folder nothing"),
        (["empty"], "there is no evaluation in these folders"),
    ],
)
def test_mistakes(tmp_path, monkeypatch, capsys, words, message):
    write_run_folder(tmp_path / "r")
    write_run_folder(tmp_path / "empty", lines=[])
    monkeypatch.chdir(tmp_path)
    assert cli.run(["show", "curves", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_comparison_is_shown_by_itself(compared, tmp_path, capsys):
    run = write_run_folder(tmp_path / "r")
    assert cli.run(["show", "curves", str(run), str(compared)]) == 2
    assert "expected runs, or one comparison" in capsys.readouterr().err
