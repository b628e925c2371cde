"""examples/onnx_predict*.py: the answers of the model, without torch, weft and transformers."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys

import pytest

import weft
from tests.support.exported_onnx import REQUESTS
from tests.support.near import assert_near
from tests.support.paths import ROOT
from weft.inference.predict import read_request

WITHOUT = """
import sys
for name in ("torch", "weft", "transformers"):
    sys.modules[name] = None  # an import fails
import runpy
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


PLAIN_KINDS = ("classify", "multilabel", "regress", "similarity")
"""The kinds of the short script."""


def started(script, folder, requests):
    """The script's process, which cannot import these packages, when it has ended."""
    lines = "\n".join(json.dumps(request) for request in requests)
    command = [sys.executable, "-c", WITHOUT, str(ROOT / "examples" / script), str(folder)]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=False, cwd=folder)


def answers(script, folder, requests):
    """What the script prints."""
    done = started(script, folder, requests)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def with_marks(task, row):
    marks = read_request(task, row, "row").marks
    return {"task": task.name, **row, **({"marks": marks} if marks else {})}


@pytest.mark.parametrize("script", ["onnx_predict.py", "onnx_predict_more.py"])
def test_answers_are_those_of_the_model(export, script):
    model = weft.load(export / "bundle")
    mixed = random.Random(2).sample(REQUESTS, len(REQUESTS))
    if script == "onnx_predict.py":
        kinds = {task.name: task.kind for task in model.tasks}
        mixed = [(name, row) for name, row in mixed if kinds[name] in PLAIN_KINDS]
    long = {"q": "the cat " * 40, "c": "a dog sees the old bird now " * 9}
    mixed += [("span", long), ("tag", {"words": ["cat", "dog"] * 40})] if "more" in script else []
    requests = [with_marks(model.tasks[model.task_id(name)], row) for name, row in mixed]
    assert_near(answers(script, export / "onnx", requests), model.predict(mixed), 1e-4)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"task": "tag", "words": ["cat"]},
            "line 2: its task is of the kind tag; type: python examples/onnx_p",
        ),
        (
            {"task": "marked", "a": "the cat"},
            "line 2: its task is of the kind marked; type: python examples/",
        ),
        ({"task": "classify", "words": "x"}, "line 2: it has no 'text'; task 'classify' reads text"),
        ({"text": "the cat"}, 'line 2: its task is None; expected "task": one of classify, '),
        ({"task": ["classify"]}, "line 2: its task is ['classify']; expected \"task\": one of"),
        (["the cat"], 'line 2: its task is None; expected "task": one of'),
    ],
)
def test_a_request_that_it_cannot_answer(export, wrong, told):
    done = started("onnx_predict.py", export / "onnx", [{"task": "classify", "text": "the cat"}, wrong])
    assert done.returncode == 1
    assert done.stderr.startswith(told)
    assert not done.stdout


def test_a_damaged_graph_is_refused(export, tmp_path):
    shutil.copytree(export / "onnx", tmp_path / "onnx")
    graph = bytearray((tmp_path / "onnx" / "model.onnx").read_bytes())
    graph[-1] ^= 1
    (tmp_path / "onnx" / "model.onnx").write_bytes(graph)
    done = started("onnx_predict.py", tmp_path / "onnx", [{"task": "classify", "text": "the cat"}])
    assert done.returncode == 1
    assert "model.onnx is damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_line_that_is_no_json(export):
    command = [sys.executable, str(ROOT / "examples" / "onnx_predict.py"), str(export / "onnx")]
    done = subprocess.run(command, input="\n{\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (1, "line 2 is no JSON: '{'")


@pytest.mark.parametrize("arguments", [[], ["nowhere"]])
def test_a_folder_that_is_no_export(tmp_path, arguments):
    command = [sys.executable, str(ROOT / "examples" / "onnx_predict.py"), *arguments]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "nowhere is no export to ONNX" in done.stderr or "onnx_predict.py EXPORTED" in done.stderr
