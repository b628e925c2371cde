"""`weft show covariance`, `spread` and `difficulty`, in this process."""

from __future__ import annotations

import json
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

import weft
from tests.support.tiny_run import assert_refused, write_rows, write_run
from weft.analysis.covariance_of_model import model_covariances
from weft.analysis.difficulty import difficulty
from weft.cli import run
from weft.config import load_tasks
from weft.data.splits.split import load_split
from weft.data.tokens.tokens import tokenize


@pytest.fixture(scope="module")
def home(tmp_path_factory, token_cache):
    """A run that has ended, one of its tasks alone, and one that was stopped."""
    folder = tmp_path_factory.mktemp("measures")
    file = write_run(folder, steps=6, evaluate_every=3)
    assert run(["train", str(file), "--out", str(folder / "many")]) == 0
    shutil.copytree(folder / "many", folder / "stopped")
    (folder / "stopped" / "metrics.json").unlink()
    shutil.copytree(folder / "many" / "bundle", folder / "bundle")
    (folder / "empty").mkdir()
    for name, tasks in (
        ("cat", {"cat": {"accuracy": 0.25}}),
        ("both", {"cat": {"accuracy": 0.125}, "same": {"accuracy": 0.5, "macro_f1": 0.5}}),
        ("other", {"cat": {"matthews": 0.5}}),
    ):
        (folder / name).mkdir()
        said = {"split": "validation", "tasks": tasks, "rows": dict.fromkeys(tasks, 12)}
        (folder / name / "metrics.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


def said(capsys, *arguments):
    capsys.readouterr()
    code = run(["show", *map(str, arguments)])
    return code, capsys.readouterr()


def words(text):
    return [line.split() for line in text.splitlines()]


def texts_of(file):
    return [e.text for e in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("pool", ["mean", "cls", "tokens"])
def test_covariance(home, capsys, pool):
    code, told = said(capsys, "covariance", home / "many", "--pool", pool, "--rows", 8, "--json")
    assert code == 0
    assert ("has rank 1" in told.err) == (pool == "cls")
    found = json.loads(told.out)
    assert list(found) == ["split", "pool", "share", "tasks", "rows", "ranks", "covsim", "average"]
    assert (found["split"], found["pool"], found["share"]) == ("validation", pool, 0.99)
    assert found["tasks"] == ["cat", "same", "count"]
    model = weft.load(home / "many")
    splits = [load_split(task, "validation") for task in load_tasks(home / "many" / "run.yaml")]
    data = {s.task.name: tokenize(s, model.tokenizer, 24) for s in splits}
    expected = model_covariances(model, data, 8, pool)
    assert found["covsim"] == [[pytest.approx(x, abs=1e-6) for x in row] for row in expected.matrix.tolist()]
    assert found["average"] == [pytest.approx(x, abs=1e-6) for x in expected.averages.tolist()]
    assert tuple(found["ranks"]) == expected.ranks
    assert tuple(found["rows"]) == expected.counts
    if pool != "tokens":
        assert found["rows"] == [8, 8, 8]
    code, told = said(capsys, "covariance", home / "many", "--pool", pool, "--rows", 8)
    assert code == 0
    assert f"({pool}); ranks hold 99% of the singular values" in told.out
    row = next(line for line in words(told.out) if line[:1] == ["cat"])
    assert row == ["cat", *(f"{x:.2f}" for x in expected.matrix[0])]


def test_covariance_of_a_bundle_and_of_another_split(home, capsys):
    code, told = said(capsys, "covariance", home / "bundle", "--tasks", home / "run.yaml", "--json")
    assert code == 0
    assert json.loads(told.out)["rows"] == [12, 12, 12]
    code, told = said(capsys, "covariance", home / "many", "--split", "train", "--share", "0.5", "--json")
    found = json.loads(told.out)
    assert found["rows"] == [40, 25, 9]
    assert found["share"] == 0.5


def test_covariance_of_one_task(home, capsys, tmp_path):
    task = {"cat": {"labels": ["no", "yes"], "validation": str(home / "cat.validation.jsonl")}}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({"tasks": task}), encoding="utf-8")
    one = weft.Model(home / "encoder", [weft.Task("cat", labels=("no", "yes"))], "separate", max_length=24)
    one.save(tmp_path / "one")
    given = ("covariance", tmp_path / "one", "--tasks", tmp_path / "one.yaml")
    code, told = said(capsys, *given, "--json", "--plot", tmp_path / "one.svg")
    assert code == 0
    assert "there is only one task, cat" in told.err
    assert json.loads(told.out)["average"] == [None]
    assert "–" in texts_of(tmp_path / "one.svg")


def test_spread(home, capsys):
    code, told = said(capsys, "spread", home / "many", "--json")
    assert code == 0
    found = json.loads(told.out)
    metrics = json.loads((home / "many" / "metrics.json").read_text(encoding="utf-8"))["tasks"]
    assert found["metrics"] == metrics
    assert found["count"] == sum(map(len, metrics.values()))
    assert found["ddof"] == 1
    assert "tasks" not in found
    code, told = said(capsys, "spread", home / "many", "--ddof", 0, "--without", "cat.accuracy")
    assert code == 0
    lines = told.out.splitlines()
    assert lines[0] == f"{home / 'many'}: validation scores in percent"
    assert lines[1].split() == ["task", "metric", "score"]
    assert lines[-1].endswith(f" percentage points over {found['count'] - 1} metrics (ddof 0)")


def test_spread_against_references(home, capsys):
    given = ("spread", home / "many", "--against", home / "cat", "--against", home / "both")
    code, told = said(capsys, *given, "--json")
    assert (code, told.err) == (0, "")
    found = json.loads(told.out)
    cat, same, count = found["tasks"]
    assert (cat["reference"], cat["source"]) == (0.25, str(home / "cat"))  # the better of two
    assert cat["difference"] == pytest.approx(cat["this"] - 0.25)
    assert cat["at_or_above"] == (cat["this"] >= 0.25)
    assert same["source"] == str(home / "both")
    assert (count["reference"], count["at_or_above"]) == (None, None)
    assert found["compared"] == 2
    assert found["at_or_above"] == cat["at_or_above"] + same["at_or_above"]
    code, told = said(capsys, *given)
    assert code == 0
    assert f"{found['at_or_above']} of 2 tasks at or above the reference; 1 not compared" in told.out
    assert "difference: this run minus the reference, in percentage points" in told.out
    row = next(line for line in words(told.out) if line[:1] == ["cat"])
    assert row[3:5] == ["25.0", f"{100 * cat['difference']:+.1f}"]
    assert f"reference of cat: {home / 'cat'}" in told.out
    code, told = said(capsys, "spread", home / "many", "--against", home / "many")
    assert "3 of 3 tasks at or above" in told.out
    assert f"reference: {home / 'many'}" in told.out


def test_scores_of_other_rows_are_told(home, capsys, tmp_path):
    other = {"split": "test", "tasks": {"cat": {"accuracy": 0.5}}, "rows": {"cat": 7}}
    (tmp_path / "metrics.json").write_text(json.dumps(other), encoding="utf-8")
    code, told = said(capsys, "spread", home / "many", "--against", tmp_path)
    assert code == 0
    assert "task 'cat': split validation here, test in" in told.err
    assert "task 'cat': 12 rows here, 7 in" in told.err


def test_the_command_that_ends_a_run_ends_it(home, capsys):
    code, told = said(capsys, "spread", home / "stopped")
    assert_refused(code, told, ["has not ended", "metrics.json is missing"])
    command = told.err.strip().split("--resume: weft ")[1].replace("RUN.yaml", str(home / "run.yaml"))
    assert run(command.split()) == 0
    assert said(capsys, "spread", home / "stopped")[0] == 0
    (home / "stopped" / "metrics.json").unlink()


def test_difficulty(home, capsys):
    code, told = said(capsys, "difficulty", home / "run.yaml", "--json")
    assert code == 0
    assert "'count' has no difficulty: kind 'regress' has no classes" in told.err
    found = json.loads(told.out)
    assert sorted(found["order"]) == ["cat", "same"]
    assert list(found["without"]) == ["count"]
    for task in load_tasks(home / "run.yaml")[:2]:
        split = load_split(task, "train")
        expected = difficulty([" ".join(texts) for texts in split.texts], split.labels)
        parts = found["tasks"][task.name]
        assert parts == {"rows": len(split), "difficulty": expected.total, **expected.parts()}
    first, second = (found["tasks"][name]["difficulty"] for name in found["order"])
    assert first >= second
    code, told = said(capsys, "difficulty", home / "run.yaml", "--split", "validation")
    assert code == 0
    rows = {line[0]: line for line in words(told.out) if line[:1] in (["cat"], ["same"])}
    assert rows["cat"][1] == "12"
    assert len(rows["same"]) == 8


DIFFERENCE = "this run − reference, in percentage points (right of 0: this run is better)"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["covariance", "many"], ["cat", "same", "count", "CovSim"]),
        (["difficulty", "run.yaml"], ["cat", "same", "mutual information"]),
        (["spread", "many"], ["cat, accuracy", "score in percent", "many: validation scores in percent"]),
        (["spread", "many", "--against", "both"], ["same, accuracy", "many, compared with both", DIFFERENCE]),
    ],
)
def test_plots(home, capsys, tmp_path, monkeypatch, command, shown):
    monkeypatch.chdir(home)
    svg = tmp_path / "a.svg"
    code, told = said(capsys, *command, "--plot", svg)
    assert code == 0
    assert told.out.endswith(f"written: {svg}\n")
    assert set(shown) <= set(texts_of(svg))
    once = svg.read_bytes()
    code, told = said(capsys, *command, "--plot", svg, "--json")
    assert json.loads(told.out)  # nothing else on standard output
    assert f"written: {svg}" in told.err
    assert svg.read_bytes() == once


def test_difficulty_needs_no_torch(home):
    import subprocess
    import sys

    script = (
        "import sys; from weft.cli import run; "
        f"code = run(['show', 'difficulty', {str(home / 'run.yaml')!r}, '--json']); "
        "assert code == 0 and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def wrong(home, tmp_path, monkeypatch):
    """Where all wrong calls are made."""
    for name in ("many", "stopped", "bundle", "empty", "other"):
        (tmp_path / name).symlink_to(home / name)
    made = {
        "broken": "{",
        "listed": "[]",
        "bare": '{"tasks": {}}',
        "words": '{"tasks": {"cat": {"accuracy": "high"}}}',
        "nan": '{"tasks": {"cat": {"accuracy": NaN}}}',
        "hollow": '{"tasks": {"cat": {}}}',
    }
    for name, text in made.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(text, encoding="utf-8")
    write_rows(tmp_path / "rows.jsonl", [{"text": "a cat", "label": "no"}] * 2)
    write_rows(tmp_path / "bare.jsonl", [{"text": "a cat"}])
    files = {"train": "rows.jsonl", "test": "bare.jsonl"}
    for name, task in (
        ("one_class", {"labels": ["no", "yes"], **files}),
        ("numbers", {"kind": "regress", **files}),
    ):
        content = {"encoder": str(home / "encoder"), "tasks": {"mine": task}}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


CALLS = {
    "covariance pool": (["covariance", "many", "--pool", "men"], ["'men'", "did you mean 'mean'"]),
    "covariance rows": (["covariance", "many", "--rows", "0"], ["rows 0", "1 or more"]),
    "covariance share": (["covariance", "many", "--share", "99"], ["share 99", "0.99"]),
    "covariance split": (["covariance", "many", "--split", "test"], ["'cat'", "split 'test'"]),
    "covariance data": (["covariance", "bundle"], ["bundle is a bundle", "--tasks RUN.yaml"]),
    "covariance bundle": (["covariance", "empty"], ["empty holds no bundle"]),
    "covariance device": (["covariance", "many", "--device", "gpu"], ["device 'gpu' cannot be used"]),
    "covariance tasks": (
        ["covariance", "many", "--tasks", "one_class.yaml"],
        ["no data for cat, same, count"],
    ),
    "covariance plot": (["covariance", "many", "--plot", "a.pdf"], ["--plot a.pdf", ".svg or .png"]),
    "spread nowhere": (["spread", "nowhere"], ["nowhere: there is no such folder"]),
    "spread file": (["spread", "rows.jsonl"], ["rows.jsonl is a file"]),
    "spread empty": (["spread", "empty"], ["empty holds no run", "weft train RUN.yaml --out empty"]),
    "spread stopped": (
        ["spread", "many", "--against", "stopped"],
        ["stopped has not ended", "weft train RUN.yaml --out stopped --resume"],
    ),
    "spread broken": (["spread", "broken"], ["broken/metrics.json is not JSON"]),
    "spread listed": (["spread", "listed"], ["listed/metrics.json: tasks: found []"]),
    "spread bare": (["spread", "bare"], ["bare/metrics.json: tasks: found {}"]),
    "spread words": (["spread", "words"], ["tasks.cat.accuracy: found 'high'; expected a finite number"]),
    "spread nan": (["spread", "nan"], ["tasks.cat.accuracy: found nan"]),
    "spread hollow": (["spread", "hollow"], ["tasks.cat: found {}"]),
    "spread metric": (
        ["spread", "many", "--against", "other"],
        ["other: task 'cat' has no 'accuracy'", "found matthews"],
    ),
    "spread two": (["spread", "many", "other"], ["found 2: many, other", "--against other"]),
    "spread ddof": (["spread", "many", "--ddof", "-1"], ["ddof -1"]),
    "spread without": (["spread", "many", "--without", "cat.f1"], ["'cat.f1' is not a metric", "cat.acc"]),
    "spread plot": (["spread", "many", "--plot", "no/a.svg"], ["no folder no"]),
    "difficulty nowhere": (["difficulty", "nowhere.yaml"], ["no run file 'nowhere.yaml'"]),
    "difficulty one class": (
        ["difficulty", "one_class.yaml"],
        ["task 'mine' has no difficulty: split 'train'", "rows.jsonl", "two classes or more; there is one"],
    ),
    "difficulty labels": (
        ["difficulty", "one_class.yaml", "--split", "test"],
        ["split 'test' of task 'mine'", "bare.jsonl", "has no labels", "--split train"],
    ),
    "difficulty split": (
        ["difficulty", "one_class.yaml", "--split", "dev"],
        ["split 'dev' does not exist", "test, train, validation"],
    ),
    "difficulty numbers": (["difficulty", "numbers.yaml"], ["numbers.yaml: no task has a difficulty"]),
    "difficulty plot": (["difficulty", "nowhere.yaml", "--plot", "a"], [".svg or .png"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case, wrong, capsys):
    before = sorted(path.name for path in wrong.iterdir())
    arguments, messages = CALLS[case]
    assert_refused(*said(capsys, *arguments), messages)
    assert sorted(path.name for path in wrong.iterdir()) == before


def test_covariance_of_several_runs(home, capsys):
    """As in the paper's figure 3.6, a model a task; a task that two have is called after its folder."""
    _, alone = said(capsys, "covariance", home / "many", "--json")
    code, told = said(capsys, "covariance", home / "many", home / "stopped", "--json")
    assert code == 0
    found, before = json.loads(told.out), json.loads(alone.out)
    names = before["tasks"]
    assert found["tasks"] == [f"{home / folder}:{name}" for folder in ("many", "stopped") for name in names]
    both = [before["covsim"][n % 3] * 2 for n in range(6)]  # the second is the first once more
    assert found["covsim"] == pytest.approx(np.array(both))
    code, told = said(capsys, "covariance", home / "many", home / "many")
    assert_refused(code, told, ["is listed twice"])
