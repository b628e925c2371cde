"""docs/extension.md, "A method": the toy scales every block's output by a vector per task."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.extension.recipes import follow
from tests.support.tiny import TASKS, batch, build, labels, no_dropout, scramble
from tests.support.tiny_run import write_run
from weft.bundle.load import load
from weft.cli import run


@pytest.fixture
def scale(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    follow("A method", "my_scale", "my_scale_adapter", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("scale")
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_it_starts_at_the_base_and_computes_its_equation(family):
    model, bare = build(family, "scale", seed=2), build(family, "frozen", seed=2)
    rows = batch(model)
    assert torch.equal(model(**rows).hidden, bare(**rows).hidden)
    only_last = build(family, {"use": "scale", "layers": str(model.num_layers - 1)})
    scramble(only_last)
    (parameter,) = only_last.adapters.parameters()  # [T, d]
    last = bare(**rows, layers=True).layers[-1]  # before a final norm
    expected = last * (1 + parameter[rows["task"]])[:, None]
    if family == "modernbert":
        expected = only_last.encoder.final_norm(expected)
    real = rows["attention_mask"].bool()
    torch.testing.assert_close(only_last(**rows).hidden[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("scale")
def test_each_task_trains_its_own_slot_alone():
    model = no_dropout(build("bert", "scale"))
    rows = batch(model)
    rows["task"] = torch.full_like(rows["task"], 2)
    model.example_losses(model(**rows), labels(model, rows["task"])).sum().backward()
    for parameter in model.adapters.parameters():
        moved = parameter.grad.abs().sum(1) > 0
        assert moved.tolist() == [False, False, True, False]
    assert model.ledger()["per_task"]["a"] == 2 * 32  # two blocks of width 32


@pytest.mark.usefixtures("scale")
def test_it_trains_by_a_run_file_and_is_saved_and_loaded(tmp_path, capsys):
    file = write_run(tmp_path, steps=6)
    out = tmp_path / "out"
    assert run(["train", str(file), "method={use: scale, layers: top half}", "--out", str(out)]) == 0
    capsys.readouterr()
    model = load(out)
    assert model.method.settings()["use"] == "scale"
    assert model.method.layers == "top half"
    assert all(parameter.abs().sum() > 0 for parameter in model.adapters.parameters())  # it has moved
    answers = model.predict([("cat", "the old cat"), ("count", "a red dog")])
    model.save(tmp_path / "again")
    again = load(tmp_path / "again").predict([("cat", "the old cat"), ("count", "a red dog")])
    assert answers == again


@pytest.mark.usefixtures("scale")
def test_its_settings_are_checked_and_its_name_is_found():
    assert weft.methods.Scale().name == "scale"
    with pytest.raises(weft.WeftError, match="method 'scale' has wrong settings"):
        weft.Model("random:bert-tiny", TASKS, {"use": "scale", "layer": 1}, device="meta")
