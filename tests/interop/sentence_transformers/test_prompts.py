"""Templates become prompts where `encode` then equals weft's vectors; other templates are only named."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
import torch

import weft
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.interop import export_sentence_transformers

sentence_transformers = pytest.importorskip("sentence_transformers")

TEXTS = ["the old cat sees a red dog", "a bird", " ".join(["the dog likes a very old bird here"] * 5)]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
PREFIX, SECOND = "old bird : ", "here "


@pytest.fixture(scope="module", params=["mean", "cls", "pooler"])
def model(request, tmp_path_factory):
    pair = {"labels": ("no", "yes")}
    tasks = [
        weft.Task("plain", labels=("no", "yes")),
        weft.Task("prompt", labels=("no", "yes"), texts=PREFIX + "{text}"),
        weft.Task("after", labels=("no", "yes"), texts=PREFIX + "{text} here"),
        weft.Task("near", "similarity", texts=(PREFIX + "{a}", SECOND + "{b}"), range=(0, 5)),
        weft.Task("pair", texts=(PREFIX + "{a}", SECOND + "{b}"), **pair),
        weft.Task("rank", "rank", texts=(PREFIX + "{q}",), choices=("c",)),
    ]
    encoder = save_encoder(tmp_path_factory.mktemp("st") / "encoder")
    method = {"use": "lora", "rank": 2, "share": "all"}  # vectors of all tasks are equal for equal texts
    return scramble(weft.Model(encoder, tasks, method, max_length=24, pool=request.param)).eval()


def load(folder):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def settings(folder):
    return json.loads((folder / "config_sentence_transformers.json").read_text())


def vectors(model, prefix=""):
    return model.embed([prefix + text for text in TEXTS], "plain")


def test_encode_writes_the_prefix(model, tmp_path):
    folder = export_sentence_transformers(model, "prompt", tmp_path / "x")
    encoder = load(folder)
    for encode in (encoder.encode, encoder.encode_query, encoder.encode_document):
        torch.testing.assert_close(encode(TEXTS, convert_to_tensor=True), vectors(model, PREFIX), **CLOSE)
    torch.testing.assert_close(
        encoder.encode(TEXTS, convert_to_tensor=True), model.embed(TEXTS, "prompt"), **CLOSE
    )
    assert not torch.allclose(vectors(model, PREFIX), vectors(model), atol=1e-2)
    assert "Pass texts without it" in (folder / "README.md").read_text(encoding="utf-8")


def test_logits_have_the_prefix_too(model, tmp_path):
    encoder = load(export_sentence_transformers(model, "prompt", tmp_path / "x", "logits"))
    found = encoder.encode(TEXTS, convert_to_tensor=True).softmax(-1)
    expected = [list(answer["probabilities"].values()) for answer in model.predict("prompt", TEXTS)]
    torch.testing.assert_close(found, torch.tensor(expected), **CLOSE)


def test_two_texts_have_two_prompts(model, tmp_path):
    encoder = load(folder := export_sentence_transformers(model, "near", tmp_path / "x"))
    first = encoder.encode_query(TEXTS, convert_to_tensor=True)
    second = encoder.encode_document(TEXTS, convert_to_tensor=True)
    torch.testing.assert_close(first, vectors(model, PREFIX), **CLOSE)
    torch.testing.assert_close(second, vectors(model, SECOND), **CLOSE)
    torch.testing.assert_close(encoder.encode(TEXTS, convert_to_tensor=True), vectors(model), **CLOSE)
    rows = [{"a": a, "b": b} for a, b in pairwise(TEXTS)]
    cosines = encoder.similarity_pairwise(first[:2], second[1:])
    expected = [answer["value"] for answer in model.predict("near", rows)]
    assert (5 * cosines.clamp(0, 1)).tolist() == pytest.approx(expected, rel=1e-5, abs=5e-5)
    assert "encode_query" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("task", ["plain", "after", "pair", "rank"])
def test_no_prompt_where_it_would_be_another_text(model, tmp_path, task):
    assert "prompts" not in settings(export_sentence_transformers(model, task, tmp_path / "x"))


def test_the_code_fills_other_templates(model, tmp_path, monkeypatch):
    folder = export_sentence_transformers(model, "after", tmp_path / "x", "logits")
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "weft writes each text as `old bird : {text} here`" in readme
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    monkeypatch.chdir(folder)
    printed: list = []
    exec(code.replace("the text", TEXTS[0]), {"print": printed.append})
    expected = list(model.predict("after", {"text": TEXTS[0]})["probabilities"].values())
    assert printed[0][0].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)
