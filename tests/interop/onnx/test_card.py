"""The README of an export to ONNX: a table of the tasks, and code that runs whatever names there are."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.every_kind import task_of_kind
from tests.support.tiny import tiny
from weft.interop.onnx.card import _code, card
from weft.interop.onnx.folder import INPUTS
from weft.tasks.kinds import KINDS

HOSTILE = st.text(st.sampled_from("ab '\"\\`\n\r\t#%é☂\u2028$<|\0"), min_size=1, max_size=9)
"""Names of columns and labels."""


def facts_of(types=True, **inputs):
    return {
        "graph": {"precision": "float32"},
        "inputs": {name: about for name, about in INPUTS.items() if inputs.get(name, True)},
        "token_types": types,
        "max_length": 24,
        "pad_id": 0,
        "truncation_side": "right",
    }


def code_of(readme):
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    return code


def test_the_table_has_every_task(export):
    readme = (export / "onnx" / "README.md").read_text("utf-8")
    for number, task in enumerate(weft.load(export / "bundle").tasks):
        assert f"| {number} | `{task.name}` | {task.kind} |" in readme


@pytest.mark.parametrize("name", ["classify", "apart", "regress", "two", "multilabel", "cosine", "similar"])
def test_the_code_gives_the_answer(export, name, monkeypatch):
    model = weft.load(export / "bundle")
    task = model.tasks[model.task_id(name)]
    facts = json.loads((export / "onnx" / "tasks.json").read_text("utf-8"))
    code = "\n".join(_code(model, task, facts)[1:-2])
    monkeypatch.chdir(export / "onnx")
    texts = ["the cat", "a red dog sees", "now"]
    texts = texts if len(task.texts) == 1 else [(text, "the bird") for text in texts]
    code = re.sub("^texts = .*$", f"texts = {texts}", code, flags=re.M)
    exec(code.replace("print(", "printed = ("), names := {})
    for printed, answer in zip(names["printed"], model.predict(name, texts), strict=True):
        if "value" in answer:
            assert printed == pytest.approx(np.ravel(answer["value"]).tolist(), abs=1e-4)
        else:
            assert printed == pytest.approx(answer["probabilities"], abs=1e-4)


def test_the_code_of_the_readme_runs_by_itself(export):
    command = [sys.executable, "-c", code_of((export / "onnx" / "README.md").read_text("utf-8"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=export / "onnx")
    assert done.stdout


SETTINGS = [
    ("classify", {"labels": ("no", "yes"), "temperature": 1.7}),
    ("classify", {"labels": ("no", "yes", "maybe")}),
    ("multilabel", {"labels": ("x", "y", "z"), "temperature": 0.6}),
    ("regress", {"range": (1, 5)}),
    ("regress", {"range": (1, 5), "targets": "raw"}),
    ("regress", {}),
    ("similarity", {"range": (0, 5), "texts": ("a", "b")}),
]


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_the_answer_is_read_off_the_logits_as_weft_reads_it(kind, settings):
    task = weft.Task("it", kind, **settings)
    code = code_of(card(weft.Model(tiny("bert"), [task], "frozen", max_length=24), facts_of()))
    logits = np.array([[0.3, -0.8, 1.4][: task.size], [2.0, 0.1, -3.0][: task.size]])
    printed = []
    exec(
        code[code.index("logits = ") :].partition("\n")[2],
        {"np": np, "logits": logits, "print": printed.append},
    )
    for own, row in zip(printed[0], logits, strict=True):
        answer = KINDS[kind]().answer(row, task, None)
        expected = np.ravel(answer["value"]).tolist() if "value" in answer else answer["probabilities"]
        assert own == pytest.approx(expected)


@given(st.tuples(HOSTILE, HOSTILE), st.lists(HOSTILE, max_size=3), st.booleans())
def test_the_code_is_python_whatever_names_there_are(columns, labels, types):
    task = weft.Task("it", texts=columns, labels=tuple(dict.fromkeys([*labels, "x", "y"])))
    model = weft.Model(tiny("bert"), [task], "frozen", max_length=24)
    readme = card(model, facts_of(types))
    found = {n.value for n in ast.walk(ast.parse(code_of(readme))) if isinstance(n, ast.Constant)}
    assert {*task.labels, *(f"the {column}" for column in columns)} <= found
    (line,) = [line for line in readme.splitlines() if line.startswith("| 0 ")]
    assert line.count("|") == 7


@pytest.mark.parametrize("kind", ["tag", "span", "choose", "rank", "marked"])
def test_other_kinds_have_no_short_code(kind):
    model = weft.Model(tiny("bert"), [task_of_kind(kind, 2)], "frozen", max_length=24)
    readme = card(model, facts_of())
    assert "```" not in readme
    assert f"More code is needed for `{kind}`" in readme
