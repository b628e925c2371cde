"""The scores of merged tasks beside their own, and the command that prints them."""

from __future__ import annotations

import json

import pytest

import weft
from tests.support.tiny_run import write_run
from weft import cli
from weft.config.run_file import load_run
from weft.workflows.merge_scores import merge_scores
from weft.workflows.train import train_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one task each, trained apart from one encoder."""
    folder = tmp_path_factory.mktemp("merge")
    file = write_run(folder, steps=4)
    tasks = {
        "cat": "{cat: {labels: ['no', 'yes'], train: cat.train.jsonl, validation: cat.validation.jsonl}}",
        "count": "{count: {kind: regress, train: count.train.jsonl, validation: count.validation.jsonl}}",
    }
    for name, text in tasks.items():
        run = load_run(file, [f"tasks={text}"])
        train_run(run, folder / name, device="cpu", progress=False)
    return folder


def test_scores_are_those_of_evaluate(runs, tmp_path):
    bundles = [runs / "cat", runs / "count"]
    weft.assemble(bundles, tmp_path / "one", merge="linear")
    scores = merge_scores(bundles, tmp_path / "one", device="cpu", progress=False)
    assert [(score.task, score.metric, score.rows) for score in scores] == [
        ("cat", "accuracy", 12),
        ("count", "pearson", 12),
    ]
    files = [folder / "run.yaml" for folder in bundles]
    after = weft.evaluate(tmp_path / "one", files, device="cpu", progress=False)["tasks"]
    for score, folder in zip(scores, bundles, strict=True):
        before = weft.evaluate(folder, device="cpu", progress=False)["tasks"]
        assert score.before == next(iter(before[score.task].values()))
        assert score.after == next(iter(after[score.task].values()))


def test_a_task_with_all_the_weight_keeps_its_score(runs, tmp_path):
    bundles = [runs / "cat", runs / "count"]
    weft.assemble(bundles, tmp_path / "one", merge="task_arithmetic", weights={"count": 0.0})
    cat, _ = merge_scores(bundles, tmp_path / "one", device="cpu", progress=False)
    assert cat.before == pytest.approx(cat.after, abs=1e-6)


def test_bundles_hold_no_data(runs, tmp_path):
    bundles = [runs / "cat" / "bundle", runs / "count" / "bundle"]
    weft.assemble(bundles, tmp_path / "one", merge="ties")
    told = []
    assert merge_scores(bundles, tmp_path / "one", tell=told.append) == []
    assert "tasks='run.yaml'" in told[0]
    files = [runs / "cat" / "run.yaml"]
    (only,) = merge_scores(bundles, tmp_path / "one", files, device="cpu", progress=False)
    assert only.task == "cat"


def test_the_command(runs, tmp_path, capsys):
    call = ["assemble", str(runs / "cat"), str(runs / "count"), "--device", "cpu", "--merge"]
    assert (
        cli.run([*call, "ties", "--density", "0.3", "--weights", "cat=0.5", "--out", str(tmp_path / "a")])
        == 0
    )
    shown = capsys.readouterr().out
    assert "scores on validation, in percent (ties)" in shown
    assert "own weights" in shown
    assert "error of the merged updates at their rank" in shown
    more = [
        "--scale",
        "0.5",
        "--seed",
        "3",
        "--rank",
        "1",
        "--rows",
        "8",
        "--out",
        str(tmp_path / "b"),
        "--json",
    ]
    assert cli.run([*call, "dare", *more]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["merge"] == {"rule": "dare", "weights": {}, "density": 0.5, "scale": 0.5, "seed": 3}
    assert facts["method"]["share"] == "all"
    assert facts["method"]["rank"] == 1
    assert [score["rows"] for score in facts["scores"]] == [8, 8]
    mean = sum(score["after"] for score in facts["scores"]) / 2
    assert facts["average"]["after"] == pytest.approx(mean)
    assert cli.run([*call, "linear", "--no-scores", "--out", str(tmp_path / "c"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["scores"], facts["average"]) == ([], None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--merge", "soup"], "--merge 'soup'"),
        (["--merge", "linear", "--density", "0.5"], "--density 0.5: linear keeps all entries"),
        (["--merge", "ties", "--weights", "cat:1"], "expected tasks with numbers, such as cola=0.7,rte=0.3"),
        (["--merge", "ties", "--weights", "dog=1"], "--weights: no bundle has a task 'dog'"),
        (["--merge", "ties", "--as", "morris"], "--merge ties cannot be combined with --as morris"),
        (["--density", "0.5"], "--density belongs to --merge"),
        (["--weights", "cat=1"], "--weights belongs to --merge"),
        (["--rows", "5"], "--rows belongs to --merge"),
        (["--no-scores"], "--no-scores belongs to --merge"),
    ],
    ids=str,
)
def test_mistakes(runs, tmp_path, capsys, arguments, message):
    call = ["assemble", str(runs / "cat"), str(runs / "count"), "--out", str(tmp_path / "out")]
    assert cli.run([*call, *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not (tmp_path / "out").exists()
