"""`weft show covariance --against`: CovSim beside the change of scores (Figure 3.6 of the CA-MTL thesis)."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.support.outline import check_page
from tests.support.tiny_run import write_run
from weft.analysis.spread import change_percent
from weft.cli import run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def home(tmp_path_factory, token_cache):
    """A run of three tasks, and the scores of references."""
    folder = tmp_path_factory.mktemp("against")
    file = write_run(folder, steps=4, evaluate_every=0)
    assert run(["train", str(file), "--out", str(folder / "many"), "--device", "cpu"]) == 0
    metrics = json.loads((folder / "many" / "metrics.json").read_text())["tasks"]
    first = {task: next(iter(of)) for task, of in metrics.items()}
    for name, tasks in (
        ("cat", {"cat": {first["cat"]: 0.5}}),
        ("all", {t: {m: 0.25} for t, m in first.items()}),
    ):
        (folder / name).mkdir()
        (folder / name / "metrics.json").write_text(json.dumps({"split": "validation", "tasks": tasks}))
    return folder


def show(capsys, *words):
    capsys.readouterr()
    code = run(["show", "covariance", *map(str, words)])
    return code, capsys.readouterr()


def test_similarity_and_change_of_each_task(home, capsys):
    code, out = show(capsys, home / "many", "--rows", 8, "--json")
    assert code == 0
    alone = json.loads(out.out)
    against = ("--against", home / "cat", "--against", home / "all")
    code, out = show(capsys, home / "many", "--rows", 8, *against, "--json")
    assert code == 0
    rows = {row["task"]: row for row in json.loads(out.out)["tasks"]}
    assert [rows[task]["covsim"] for task in alone["tasks"]] == pytest.approx(alone["average"])
    metrics = json.loads((home / "many" / "metrics.json").read_text())["tasks"]
    score = next(iter(metrics["cat"].values()))
    assert rows["cat"]["score"] == score
    assert rows["cat"]["reference"] == 0.5  # the better of two
    assert rows["cat"]["change_percent"] == pytest.approx(change_percent(score, 0.5))


def test_a_task_without_a_reference_has_no_change(home, capsys, tmp_path):
    folder = tmp_path / "fewer"
    folder.mkdir()
    metrics = json.loads((home / "many" / "metrics.json").read_text())["tasks"]
    facts = {"split": "validation", "tasks": {"cat": {next(iter(metrics["cat"])): 0.5}}}
    (folder / "metrics.json").write_text(json.dumps(facts))
    code, out = show(capsys, home / "many", "--rows", 4, "--against", folder, "--json")
    rows = {row["task"]: row for row in json.loads(out.out)["tasks"]}
    assert code == 0
    assert rows["same"]["reference"] is None
    assert rows["same"]["change_percent"] is None
    assert "not drawn, for want of a reference" in out.err


def test_the_scatter(home, capsys, tmp_path):
    svg, page = tmp_path / "s.svg", tmp_path / "s.html"
    for file in (svg, page):
        code, out = show(capsys, home / "many", "--rows", 8, "--against", home / "all", "--plot", file)
        assert code == 0
        assert f"written: {file}" in out.out
    tree = ElementTree.fromstring(svg.read_text())
    titles = [e.text for e in tree.iter(f"{SVG}title") if e.text and "CovSim" in e.text and "(" in e.text]
    assert sorted(title.split(" (")[0] for title in titles) == ["cat", "count", "same"]
    check_page(page.read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "train"], "--split train: no scores of it are stored"),
        (["--plot", "x.png"], "expected a name that ends in .svg or .html"),
    ],
)
def test_mistakes(home, capsys, words, message):
    code, out = show(capsys, home / "many", "--against", home / "all", *words)
    assert code == 2
    assert message in out.err


def test_references_without_any_of_the_tasks_are_refused(home, capsys, tmp_path):
    (tmp_path / "metrics.json").write_text(
        json.dumps({"split": "validation", "tasks": {"x": {"accuracy": 0.5}}})
    )
    code, out = show(capsys, home / "many", "--against", tmp_path)
    assert code == 2
    assert "no task of the models is in --against; found x" in out.err
