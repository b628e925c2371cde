"""Rows and layers that the encoder does not have are mistakes of the run file."""

from __future__ import annotations

import pytest

import weft
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError


@pytest.fixture
def file(tmp_path):
    save_encoder(tmp_path / "encoder", layers=3)
    path = tmp_path / "run.yaml"
    path.write_text("encoder: encoder\nmethod: lora\ntasks: {suite: swatch}\n")
    return path


CASES = {
    "max_length": (["train.max_length=65"], ["train.max_length: 65; encoder", "rows of at most 64 tokens"]),
    "layers": (["method.layers=1-3"], ["method.layers: layers '1-3' is outside", "layers are 0-2"]),
    "list": (["method.layers=[0, 7]"], ["method.layers: layers [0, 7] is outside"]),
    "train_encoder": (["method.train_encoder=layers 5"], ["method.train_encoder: layers '5' is outside"]),
    "pattern": (["method.rank_pattern={3/query: 2}"], ["method.rank_pattern: site '3/query'", "0-2"]),
    "parts": (["method=[bitfit, {use: lora, layers: 9}]"], ["method.1.layers: layers [9] is outside"]),
    "norms": (["method={use: ca_mtl, norm_layers: 6-11}"], ["method.norm_layers: layers '6-11' is outside"]),
    "all at once": (
        ["train.max_length=65", "method.layers=4"],
        ["2 mistakes", "train.max_length: 65", "method.layers: layers [4]"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_beyond_the_encoder(file, case):
    overrides, messages = CASES[case]
    with pytest.raises(WeftError) as told:
        weft.load_run(file, overrides)
    for message in messages:
        assert message in str(told.value)


@pytest.mark.parametrize("layers", ["all", "top half", "0-2", "[1, 2]", "not 0", "bottom 34%"])
def test_what_the_encoder_has(file, layers):
    run = weft.load_run(file, [f"method.layers={layers}", "method.rank_pattern={2/query: 1}"])
    # the default of 128 is more than the encoder accepts
    assert run.training.max_length == 64


def test_an_unknown_encoder_is_not_checked_here(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("encoder: some/model\nmethod: {use: lora, layers: 90}\ntasks: {suite: swatch}\n")
    run = weft.load_run(path, ["train.max_length=5000"])
    assert run.training.max_length == 5000


def test_a_number_of_layers_is_no_choice_of_layers(file):
    run = weft.load_run(file, ["method={use: top_ffn, hidden_layers: 2}"])
    assert run.method.parts[0].hidden_layers == 2
