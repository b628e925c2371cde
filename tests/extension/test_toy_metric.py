"""docs/extension.md, "A metric": the toy is the share of numbers that are at most 1 away."""

from __future__ import annotations

import json

import pytest

import weft
from tests.extension.recipes import follow
from tests.support.tiny_run import write_run
from weft.cli import run
from weft.errors import WeftError
from weft.metrics import score


@pytest.fixture
def within_one(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    follow("A metric", "my_metric", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("within_one")
def test_it_is_computed():
    assert score(["within_one"], [1.0, 5.0], [1.5, 8.0]) == {"within_one": 0.5}
    assert score(["within_one"], [], []) == {"within_one": 0.0}


@pytest.mark.usefixtures("within_one")
def test_it_appears_in_an_evaluation(tmp_path, capsys):
    file = write_run(tmp_path, steps=4)
    out = tmp_path / "out"
    assert run(["train", str(file), "tasks.count.metrics=[pearson, within_one]", "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["tasks"]["count"]
    assert list(told) == ["pearson", "within_one"]
    model = weft.load(out)
    rows = [json.loads(line) for line in (tmp_path / "count.validation.jsonl").read_text().splitlines()]
    answers = model.predict([("count", row["text"]) for row in rows])
    near = [abs(answer["value"] - row["label"]) <= 1 for answer, row in zip(answers, rows, strict=True)]
    assert told["within_one"] == pytest.approx(sum(near) / len(near))


@pytest.mark.usefixtures("within_one")
def test_kinds_whose_answers_fit_accept_it_and_others_do_not():
    assert weft.Task("a", "regress", metrics=("within_one",)).metrics == ("within_one",)
    assert weft.Task("b", "similarity", texts=("x", "y"), metrics=("within_one",)).metrics == ("within_one",)
    with pytest.raises(WeftError, match="'within_one' does not fit classify-2: it compares numbers"):
        weft.Task("c", labels=("no", "yes"), metrics=("within_one",))
