"""The command line, in this process."""

from __future__ import annotations

import json
import re
from importlib.metadata import version

import pytest

from tests.support.tiny_run import trained_run, write_rows, write_run
from weft.cli import app, run
from weft.cli.app import build_app
from weft.cli.commands import COMMANDS


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of the tiny model."""
    with trained_run(tmp_path_factory.mktemp("cli"), baselines=None) as folder:
        yield folder


def said(capsys, arguments):
    capsys.readouterr()
    code = run(arguments)
    return code, capsys.readouterr()


def test_version(capsys):
    code, told = said(capsys, ["--version"])
    assert (code, told.err) == (0, "")
    first, second = told.out.splitlines()
    assert first == f"weft {version('weft')}"
    assert re.fullmatch(r"torch \d\S+, transformers \d\S+, Python \d+\.\d+\.\d+", second)


def test_the_parser_is_built_once_and_knows_commands_that_come_later(capsys, monkeypatch):
    assert run(["--version"]) == 0
    built = []
    monkeypatch.setattr(app, "build_app", lambda: built.append(1) or build_app())
    assert run(["--version"]) == 0
    assert built == []

    def hello():
        """Say hello."""
        print("hello")

    monkeypatch.setitem(COMMANDS._entries, "hello", hello)
    code, told = said(capsys, ["hello"])
    assert (code, told.out, built) == (0, "hello\n", [1])
    monkeypatch.undo()
    code, told = said(capsys, ["hello"])
    assert code == 2
    assert "hello" in told.err


def test_train_prints_a_table_and_lines(done, capsys):
    code, told = said(
        capsys, ["train", str(done / "run.yaml"), "train.steps=4", "--out", str(done / "short")]
    )
    assert code == 0
    for name in ("cat", "same", "count", "average", "majority", "bag of words", "this model", "bundle"):
        assert name in told.out
    baselines = json.loads((done / "short" / "metrics.json").read_text())["baselines"]
    assert [list(tasks) for tasks in baselines.values()] == [["cat", "same", "count"]] * 2
    assert "is not better than" in told.err  # after four steps
    assert "step 4/4" in told.err  # plain lines where there is no terminal
    code, told = said(capsys, ["train", str(done / "run.yaml"), "--out", str(done / "short")])
    assert (code, told.out) == (2, "")
    assert "short holds a finished run; set a different --out" in told.err


def test_evaluate_gives_the_runs_own_numbers(done, capsys):
    metrics = json.loads((done / "out" / "metrics.json").read_text())
    for arguments in (
        ["evaluate", str(done / "out")],
        ["evaluate", str(done / "out" / "bundle"), "--tasks", str(done / "run.yaml")],
    ):
        code, told = said(capsys, [*arguments, "--json"])
        assert code == 0
        found = json.loads(told.out)
        assert found["tasks"] == metrics["tasks"]
        assert found["average"] == metrics["average"]
    code, told = said(capsys, ["evaluate", str(done / "out"), "--baselines"])
    assert code == 0
    assert "majority" in told.out
    assert "bag of words" in told.out


def test_evaluate_in_bf16(done, capsys):
    """Slightly different numbers of the same examples."""
    both = {}
    for precision in ("float32", "bf16"):
        code, told = said(capsys, ["evaluate", str(done / "out"), "--precision", precision, "--json"])
        assert code == 0
        both[precision] = json.loads(told.out)
    assert both["bf16"]["rows"] == both["float32"]["rows"]
    found, expected = (both[precision]["tasks"]["count"] for precision in ("bf16", "float32"))
    assert found != expected
    assert found == pytest.approx(expected, abs=0.1)


def test_evaluate_refuses_another_task_of_the_same_name(done, capsys):
    text = (done / "run.yaml").read_text()
    other = done / "flipped.yaml"
    other.write_text(text.replace("- 'no'\n    - 'yes'", "- 'yes'\n    - 'no'"))
    assert other.read_text() != text
    code, told = said(capsys, ["evaluate", str(done / "out" / "bundle"), "--tasks", str(other)])
    assert code == 2
    assert f"task 'cat' in {other} does not match the bundle: kind, labels or size differ" in told.err


def test_an_encoder_that_moved_can_be_pointed_to(done, capsys):
    import shutil

    shutil.copytree(done / "encoder", done / "moved")
    ask = write_rows(done / "one.jsonl", [{"task": "cat", "text": "a cat"}])
    assert run(["predict", str(done / "out"), str(ask), "--encoder", str(done / "moved")]) == 0


def test_paths_are_no_markup(done, capsys):
    code, told = said(
        capsys, ["train", str(done / "run.yaml"), "train.steps=2", "--out", str(done / "o[red]x[/x]")]
    )
    assert code == 0
    assert "o[red]x[/x]" in told.out


def test_places_that_cannot_be_written(done, capsys):
    ask = write_rows(done / "one.jsonl", [{"task": "cat", "text": "a cat"}])
    for arguments in (
        ["train", str(done / "run.yaml"), "--out", str(ask)],
        ["train", str(done / "run.yaml"), "--out", str(ask / "x")],
        ["predict", str(done / "out"), str(ask), "--out", str(done / "no" / "x")],
        ["predict", str(done / "out"), str(ask), "--out", str(done)],
    ):
        code, told = said(capsys, arguments)
        assert code == 2, arguments
        assert "Traceback" not in told.err


def test_predict(done, capsys):
    lines = [
        {"task": "count", "text": "the cat sees"},
        {"task": "same", "a": "a dog", "b": "a dog"},
        {"task": "same", "text_a": "a dog", "text_b": "a bird"},
        {"task": "cat", "text": "the old cat"},
    ]
    file = write_rows(done / "ask.jsonl", lines)
    code, told = said(capsys, ["predict", str(done / "out"), str(file)])
    assert code == 0
    answers = [json.loads(line) for line in told.out.splitlines()]
    assert [a["task"] for a in answers] == ["count", "same", "same", "cat"]
    assert run(["predict", str(done / "out"), str(file), "--out", str(done / "answers.jsonl")]) == 0
    assert (done / "answers.jsonl").read_text() == told.out


def test_predict_for_many_tasks(done, capsys):
    texts = done / "texts.txt"
    texts.write_text("the old cat\n\na dog sees\n")
    pairs = done / "pairs.jsonl"
    pairs.write_text('["a dog", "a bird"]\n{"text_a": "a dog", "text_b": "a dog"}\n"a cat"\n')
    code, told = said(capsys, ["predict", str(done / "out"), str(texts), "--all"])
    assert code == 0
    answers = [json.loads(line) for line in told.out.splitlines()]
    assert [list(one) for one in answers] == [["cat", "count"]] * 2
    found = said(capsys, ["predict", str(done / "out"), str(pairs), "--all"])[1].out
    assert [list(json.loads(line)) for line in found.splitlines()] == [["same"], ["same"], ["cat", "count"]]
    code, told = said(capsys, ["predict", str(done / "out"), str(texts), "--tasks", "count, cat"])
    assert [list(json.loads(line)) for line in told.out.splitlines()] == [["count", "cat"]] * 2
    code, told = said(capsys, ["predict", str(done / "out"), str(texts), "--tasks", "same"])
    assert code == 2
    assert f"{texts}, line 1: task 'same' takes a pair of texts" in told.err
    lines = done / "lines.NDJSON"
    lines.write_text('"a cat"\n\n["a", "b", "c"]\n')
    code, told = said(capsys, ["predict", str(done / "out"), str(lines), "--all"])
    assert (code, [list(json.loads(line)) for line in told.out.splitlines()]) == (2, [["cat", "count"]])
    assert f"{lines}, line 3: no task of this model can read it" in told.err
    assert run(["predict", str(done / "out"), str(texts), "--all", "--tasks", "cat"]) == 2


def test_predict_in_fewer_bits(done, capsys):
    file = write_rows(done / "ask.jsonl", [{"task": "cat", "text": "the old cat"}])
    found = {}
    for precision in ("float32", "bf16", "int8"):
        code, told = said(capsys, ["predict", str(done / "out"), str(file), "--precision", precision])
        assert code == 0
        found[precision] = json.loads(told.out)["probabilities"]["yes"]
    assert len(set(found.values())) == 3
    assert found["bf16"] == pytest.approx(found["float32"], abs=0.05)
    assert found["int8"] == pytest.approx(found["float32"], abs=0.05)
    code, told = said(capsys, ["predict", str(done / "out"), str(file), "--precision", "int4"])
    assert code == 2
    assert "int8" in told.err


def test_check_and_show(done, capsys):
    code, told = said(capsys, ["check", str(done / "run.yaml")])
    assert code == 0
    assert "cat/train: 40 rows" in told.out
    report = json.loads(said(capsys, ["check", str(done / "run.yaml"), "--json"])[1].out)
    assert report["ok"] is True
    plan = json.loads(said(capsys, ["show", "plan", str(done / "run.yaml"), "--json"])[1].out)
    assert sum(row["drawn"] for row in plan["tasks"]) == 20
    assert "epochs" in said(capsys, ["show", "plan", str(done / "run.yaml")])[1].out
    params = json.loads(said(capsys, ["show", "params", str(done / "run.yaml"), "--json"])[1].out)
    assert params["per_task"] == {"cat": 512, "same": 512, "count": 512}
    assert "times the encoder" in said(capsys, ["show", "params", str(done / "run.yaml")])[1].out
    methods = json.loads(said(capsys, ["show", "methods", "--json"])[1].out)
    assert methods["lora"]["settings"]["rank"]["default"] == 8
    code, told = said(capsys, ["show", "methods"])
    assert code == 0
    assert "rank = 8" in told.out
    big = ["show", "params", str(done / "run.yaml"), "encoder=random:bert-base"]
    code, told = said(capsys, big)
    assert code == 0
    assert "109,482,240" in told.out


def broken(done, name, change):
    """The run file with one file of data changed."""
    folder = done / name
    folder.mkdir()
    path = write_run(folder)
    change(folder)
    return path


DATA = {
    "a missing file": (lambda f: (f / "cat.train.jsonl").unlink(), "cat.train.jsonl"),
    "an empty file": (lambda f: (f / "cat.train.jsonl").write_text(""), "cat.train.jsonl"),
    "a broken line": (
        lambda f: (f / "same.train.jsonl").write_text('{"a": "x", "b": "y", "label": 0}\n{"a"\n'),
        "line 2",
    ),
    "a label outside": (
        lambda f: write_rows(f / "cat.validation.jsonl", [{"text": "a", "label": "maybe"}]),
        "'maybe'",
    ),
    "no number": (lambda f: write_rows(f / "count.train.jsonl", [{"text": "a", "label": "much"}]), "'much'"),
    "a missing column": (lambda f: write_rows(f / "same.train.jsonl", [{"a": "x", "label": 1}]), "'b'"),
    "an empty text": (lambda f: write_rows(f / "cat.train.jsonl", [{"text": " ", "label": "no"}]), "text"),
    "not UTF-8": (lambda f: (f / "cat.train.jsonl").write_bytes(b'{"text": "\xff", "label": 0}\n'), "UTF-8"),
}


@pytest.mark.parametrize("case", DATA)
def test_wrong_data_is_told_by_train_and_check(case, done, capsys):
    change, word = DATA[case]
    path = broken(done, case.replace(" ", "-"), change)
    for arguments in (["train", str(path), "--out", str(path.parent / "out")], ["check", str(path)]):
        code, told = said(capsys, arguments)
        assert code == 2, arguments
        text = told.err + told.out
        assert word in text
        assert str(path.parent) in text
        assert "Traceback" not in text
    assert not (path.parent / "out").exists()


CALLS = {
    "no such command": (["trian"], "No such command 'trian'"),
    "no such option": (["train", "x.yaml", "--fast"], "No such option"),
    "no run file": (["train", "nothing.yaml"], "there is no run file 'nothing.yaml'"),
    "no bundle": (["predict", "nowhere", "x.jsonl"], "nowhere holds no bundle"),
    "no such split": (["evaluate", "OUT", "--split", "tset"], "tset"),
    "no data for a bundle": (["evaluate", "OUT/bundle"], "--tasks RUN.yaml"),
    "no such device": (["predict", "OUT", "ASK", "--device", "cuda:77"], "device 'cuda:77' cannot be used"),
    "int8 elsewhere": (
        ["predict", "OUT", "ASK", "--precision", "int8", "--device", "cuda"],
        "--precision int8 runs on a CPU; found --device cuda: leave --device out",
    ),
    "no such precision": (
        ["evaluate", "OUT", "--precision", "int8"],
        "precision 'int8': expected float32 or bf16",
    ),
    "no requests": (["predict", "OUT", "nothing.jsonl"], "there is no such file"),
    "no unlabelled split": (["evaluate", "OUT", "--split", "test"], "test"),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case, done, capsys):
    arguments, message = CALLS[case]
    ask = write_rows(done / "one.jsonl", [{"task": "cat", "text": "a cat"}])
    places = {"OUT": str(done / "out"), "ASK": str(ask)}
    for short, long in places.items():
        arguments = [a.replace(short, long) for a in arguments]
    code, told = said(capsys, arguments)
    assert code == 2
    assert message in told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", 'expected an object with "task"'),
        ('{"text": "x"}', 'expected an object with "task"'),
        ('{"task": "cta", "text": "x"}', "line 1: task 'cta' does not exist; did you mean 'cat'"),
        ('{"task": "cat"}', "task 'cat' takes one text; 'text' is missing"),
        ('{"task": "same", "a": "x"}', "task 'same' takes a pair of texts; 'b' is missing"),
        ("", "has no line to predict"),
    ],
)
def test_wrong_requests(done, capsys, line, message):
    file = done / "wrong.jsonl"
    file.write_text(line + "\n")
    code, told = said(capsys, ["predict", str(done / "out"), str(file)])
    assert (code, told.out) == (2, "")
    assert message in told.err
