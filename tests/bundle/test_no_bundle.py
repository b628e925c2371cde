"""Folders that are no bundle: the message says what they are."""

from __future__ import annotations

import json

import pytest

import weft
from weft.errors import WeftError


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"x holds no bundle \(bundle.json is missing\); a run writes one"),
        ({"tasks.json": "{}"}, "x holds no bundle: it is an export to ONNX, and model.onnx is missing"),
        (
            {"adapter_config.json": {}},
            r"x holds no bundle: it is a PEFT folder; .* weft.interop.load_peft\('x'\).save",
        ),
        ({"weft.json": {"exported_to": "hf"}}, r"it is an export to hf, .* x/README.md shows how to load it"),
        ({"weft.json": {"exported_to": "\x1b[31m"}}, r"bundle.json is missing"),
        ({"weft.json": ["hf"]}, r"bundle.json is missing"),
        ({"weft.json": "{"}, r"bundle.json is missing"),
    ],
)
def test_what_a_folder_is(files, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "x" / name).write_text(text)
    with pytest.raises(WeftError, match=message):
        weft.load("x")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(WeftError, match=r"x.csv holds no bundle: it is a file; expected the folder of"):
        weft.load(tmp_path / "x.csv")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(WeftError, match="nowhere holds no bundle: there is no such folder"):
        weft.load(tmp_path / "nowhere")
