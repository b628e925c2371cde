"""docs/extension.md, "A task kind": the toy counts, by Poisson regression."""

from __future__ import annotations

import json
import math

import pytest
import torch
import yaml

import weft
from tests.extension.recipes import follow
from tests.support.tiny import batch, build, no_dropout
from tests.support.tiny_run import rows_of, write_rows, write_run
from weft.cli import run
from weft.errors import WeftError


@pytest.fixture
def count(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    follow("A task kind", "my_count", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("count")
def test_its_loss_in_a_batch_with_another_kind():
    tasks = [weft.Task("a", labels=("no", "yes")), weft.Task("n", "count")]
    model = no_dropout(build("bert", "lora", tasks))
    rows = batch(model, rows=4)
    rows["task"] = torch.tensor([1, 0, 1, 0])
    out = model(**rows)
    x = torch.stack([out.logits[row][0] for row in (0, 2)])
    expected = x.exp() - torch.tensor([3.0, 0.0]) * x
    losses = model.example_losses(out, model.collate_labels([3, 1, 0, 0], rows["task"]))
    torch.testing.assert_close(losses[[0, 2]], expected)
    with pytest.raises(WeftError, match="a whole number of 0 or more"):
        model.collate_labels([-1, 1, 0, 0], rows["task"])


@pytest.mark.usefixtures("count")
def test_it_trains_predicts_and_evaluates(tmp_path, capsys):
    file = write_run(tmp_path, steps=8)
    for split, number in (("train", 30), ("validation", 12)):
        rows = [{"text": row["text"], "label": len(row["text"].split())} for row in rows_of("cat", number, 3)]
        write_rows(tmp_path / f"words.{split}.jsonl", rows)
    content = yaml.safe_load(file.read_text())
    files = {split: f"words.{split}.jsonl" for split in ("train", "validation")}
    content["tasks"]["words"] = {"kind": "count", "metrics": ["mse", "pearson"], **files}
    file.write_text(yaml.safe_dump(content))
    assert run(["check", str(file)]) == 0
    assert run(["train", str(file), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "out"), "--baselines", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["tasks"]["words"]) == ["mse", "pearson"]
    assert told["baselines"]["majority"]["words"]["mse"] > 0
    model = weft.load(tmp_path / "out")
    (answer,) = model.predict([("words", "the old cat")])
    assert answer["count"] > 0
    assert math.isfinite(answer["count"])


@pytest.mark.usefixtures("count")
def test_a_wrong_row_is_named(tmp_path, capsys):
    file = write_run(tmp_path)
    write_rows(tmp_path / "count.train.jsonl", [{"text": "a cat", "label": "many"}])
    assert run(["check", str(file), "tasks.count.kind=count"]) == 2
    told = capsys.readouterr()
    assert "a whole number of 0 or more" in told.out + told.err
    assert "'many'" in told.out + told.err


@pytest.mark.usefixtures("count")
def test_metrics_fit_by_what_it_declares():
    assert weft.Task("n", "count").metrics == ("pearson", "spearman")
    with pytest.raises(WeftError, match="'accuracy' does not fit count-1: it compares labels or choices"):
        weft.Task("n", "count", metrics=("accuracy",))
