"""`weft.evaluate`: a model, a bundle or a run, on its own data or on tasks given."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import weft
from tests.support.tiny_run import rows_of, trained_run
from weft import cli
from weft.data.tokens.tokens import tokenize
from weft.errors import WeftError
from weft.evaluation.evaluate import evaluate as scores_of
from weft.inference.precision import precision_context


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with trained_run(tmp_path_factory.mktemp("evaluate")) as folder:
        yield folder


@pytest.fixture(scope="module")
def metrics(done):
    return json.loads((done / "out" / "metrics.json").read_text())


@pytest.mark.parametrize(
    "options",
    [[], ["--rows", "5", "--seed", "3"], ["--baselines"], ["--precision", "bf16"]],
    ids=["all", "rows", "baselines", "bf16"],
)
def test_it_returns_what_the_command_prints(done, capsys, options):
    capsys.readouterr()
    assert cli.run(["evaluate", str(done / "out"), *options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    named = dict(zip(options[::2], options[1::2], strict=False))
    found = weft.evaluate(
        done / "out",
        rows=int(named["--rows"]) if "--rows" in named else None,
        seed=int(named.get("--seed", 1)),
        baselines="--baselines" in options,
        precision=named.get("--precision", "float32"),
    )
    assert found == printed
    assert list(found) == list(printed)
    assert ("baselines" in found) == ("--baselines" in options)


def test_a_run_its_folder_its_bundle_and_its_model_are_the_same(done, metrics):
    run = weft.Run(done / "out", metrics)
    model = weft.load(done / "out")
    file = done / "run.yaml"
    for found in (
        weft.evaluate(run),
        weft.evaluate(str(done / "out")),
        weft.evaluate(done / "out" / "bundle", tasks=file),
        weft.evaluate(done / "out" / "bundle", [str(file)], device="cpu"),
        weft.evaluate(model, file),
        weft.evaluate(model, weft.load_run(file)),
        weft.evaluate(model, list(weft.load_run(file).tasks)),
        weft.evaluate(weft.Model.from_pretrained(done / "out", encoder=done / "encoder"), file),
    ):
        assert found["tasks"] == metrics["tasks"]
        assert (found["average"], found["split"]) == (metrics["average"], "validation")
        assert found["rows"] == found["of"] == {"cat": 12, "same": 12, "count": 12}


def test_a_model_knows_the_data_of_its_own_tasks(done):
    """Tasks that a model was made with have their rows; those of a bundle have none."""
    rows = rows_of("cat", 20, 5)
    task = weft.Task("cat", labels=("no", "yes"), files={"train": rows, "validation": rows})
    model = weft.Model(done / "encoder", [task], "lora")
    found = weft.evaluate(model, rows=7)
    assert (found["rows"], found["of"]) == ({"cat": 7}, {"cat": 20})
    assert weft.evaluate(model, rows=7) == found  # always the same ones
    with pytest.raises(
        WeftError, match=r"tasks have no data; pass a run file that names it: tasks='RUN\.yaml'"
    ):
        weft.evaluate(weft.load(done / "out"))


def test_tasks_without_data_are_left_out_with_a_note(done, capsys):
    model = weft.load(done / "out")
    one = [task for task in weft.load_run(done / "run.yaml").tasks if task.name == "cat"]
    capsys.readouterr()
    assert list(weft.evaluate(model, one)["tasks"]) == ["cat"]
    assert "the list of tasks has no data for same, count" in capsys.readouterr().err
    assert list(weft.evaluate(model, one[0], progress=False)["tasks"]) == ["cat"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "tset"}, "'tset'"),
        ({"split": "test"}, "no task has labels to evaluate on in the split 'test'"),
        ({"rows": 0}, "rows must be at least 1; found 0"),
        ({"precision": "int8"}, "precision 'int8': expected float32 or bf16"),
        ({"device": "cuda:77"}, "device 'cuda:77' cannot be used"),
        ({"tasks": "nothing.yaml"}, "there is no run file 'nothing.yaml'"),
    ],
)
def test_wrong_calls(done, settings, message):
    with pytest.raises(WeftError, match=message):
        weft.evaluate(done / "out", **settings)


def test_wrong_models(done):
    with pytest.raises(WeftError, match="nowhere holds no bundle"):
        weft.evaluate("nowhere", done / "run.yaml")
    with pytest.raises(WeftError, match="expected a model, a run, or the folder"):
        weft.evaluate(3)
    with pytest.raises(WeftError, match="a model has its encoder"):
        weft.evaluate(weft.load(done / "out"), done / "run.yaml", encoder=done / "encoder")


def test_the_inner_evaluation_takes_a_precision_by_name(done):
    model = weft.load(done / "out")
    task = weft.Task("cat", labels=("no", "yes"), files={"validation": rows_of("cat", 30, 9)})
    from weft.data.splits.splits import load_rows

    data = {"cat": tokenize(load_rows(task, "validation"), model.tokenizer, model.max_length)}
    for name in ("float32", "bf16"):
        assert scores_of(model, data, precision=name) == scores_of(
            model, data, precision=precision_context(model, name)
        )
    with pytest.raises(WeftError, match="precision 'half'"):
        scores_of(model, data, precision="half")


def test_a_wrong_folder_is_refused_before_torch_is_loaded():
    script = """
import sys
import weft
try:
    weft.evaluate("nowhere", "quickstart", rows=0)
except weft.WeftError as wrong:
    assert "rows must be" in str(wrong), wrong
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
