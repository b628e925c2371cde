"""docs/extension.md, "An export format": the toy writes a task's head as an .npz file."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import weft
from tests.extension.recipes import follow
from tests.support.tiny import scramble
from tests.support.tiny_run import assert_refused, save_encoder
from weft.cli import run


@pytest.fixture
def numpy_head(tmp_path, monkeypatch):
    follow("An export format", "my_exporter", folder=tmp_path, monkeypatch=monkeypatch)


@pytest.fixture
def bundle(tmp_path):
    tasks = [weft.Task("a", labels=("no", "yes")), weft.Task("b", labels=("x", "y"))]
    scramble(weft.Model(save_encoder(tmp_path / "encoder"), tasks, "lora", max_length=24)).save(
        tmp_path / "x"
    )
    return tmp_path / "x"


@pytest.mark.usefixtures("numpy_head")
def test_it_writes_a_file_that_computes_the_models_logits(bundle, tmp_path, capsys):
    out = tmp_path / "head.npz"
    arguments = ["export", str(bundle), "--to", "numpy_head", "--task", "b", "--out", str(out)]
    assert run([*arguments, "--set", "precision=float64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(out), "task": "b", "shape": [2, 32]}
    head = np.load(out)
    assert head["weight"].dtype == np.float64
    model = weft.load(bundle).eval()
    ids = torch.tensor([[2, 9, 8, 3]])
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=torch.ones_like(ids), task=torch.tensor([1]))
    expected = output.pooled.numpy() @ head["weight"].T + head["bias"]
    np.testing.assert_allclose(output.logits[0].numpy()[None], expected, rtol=1e-4, atol=1e-5)
    assert run(arguments) == 0
    assert capsys.readouterr().out == f"{out}: task b, for numpy_head\n"


@pytest.mark.usefixtures("numpy_head")
def test_it_is_in_the_help_with_its_options(capsys):
    assert run(["export", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "numpy_head the task's head as an .npz file: weight [C, d], bias [C]" in told
    assert "precision of the numbers" in told


@pytest.mark.usefixtures("numpy_head")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "head.txt"], "expected a name that ends in .npz"),
        (["--out", "h.npz", "--set", "precision=float16"], "precision: expected 'float32' or 'float64'"),
        (["--out", "h.npz", "--set", "precison=float32"], "no such setting; did you mean 'precision'?"),
        (["--out", "h.npz", "--set", "precision"], "expected KEY=VALUE"),
        (
            ["--out", "h.npz", "--head", "file"],
            "--head: export format 'numpy_head' has no option head; its options: precision",
        ),
    ],
)
def test_a_users_mistakes(bundle, capsys, arguments, message):
    code = run(["export", str(bundle), "--to", "numpy_head", "--task", "a", *arguments])
    assert_refused(code, capsys.readouterr(), [message])


def test_importers_are_functions_by_name(registrations):
    from weft.interop import IMPORTERS, load_ca_mtl

    assert IMPORTERS["ca_mtl"] is load_ca_mtl

    def load_toy(path):
        return weft.Model("random:bert-tiny", [weft.Task("a", size=2)], device="meta")

    IMPORTERS.register("toy", load_toy)
    assert weft.interop.load_toy is load_toy
