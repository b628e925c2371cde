"""A list that names something twice is reported, with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import cli
from weft.config.repeats import repeated

FILE = """encoder: minilm
method: {use: lora, layers: [0, 1, 0], share: {x: [sentiment, sentiment], y: [question]}}
tasks:
  suite: swatch
  only: [sentiment, question, sentiment]
train: {steps: 0}
"""


def test_each_place_with_its_line(tmp_path):
    (tmp_path / "run.yaml").write_text(FILE)
    run = weft.load_run(tmp_path / "run.yaml")
    assert run.warnings == (
        "line 2, method.layers: '0' is listed twice",
        "line 2, method.share.x: 'sentiment' is listed twice",
        "line 5, tasks.only: 'sentiment' is listed twice",
    )
    assert [task.name for task in run.tasks] == ["sentiment", "question"]


def test_check_reports_it(tmp_path, capsys):
    (tmp_path / "run.yaml").write_text("encoder: random:bert-tiny\ntasks: {suite: swatch}\n")
    assert cli.run(["check", str(tmp_path / "run.yaml"), "tasks.only=question, question"]) == 0
    assert "command line, tasks.only: 'question' is listed twice" in capsys.readouterr().out


@given(st.lists(st.sampled_from("abcd")))
def test_a_name_is_reported_once(names):
    found = list(repeated({"tasks": [{"suite": "glue", "only": names}]}))
    assert found == [(("tasks", "0", "only"), name) for name in dict.fromkeys(names) if names.count(name) > 1]


@pytest.mark.parametrize("value", [{"class_weights": [1.0, 1.0]}, {"betas": [0.9, 0.9]}, {"text": "a, a"}])
def test_numbers_and_texts_may_repeat(value):
    assert list(repeated(value)) == []


def test_metrics_of_a_suite_as_text():
    assert list(repeated({"metrics": {"cola": "f1, f1"}})) == [(("metrics", "cola"), "f1")]
