"""The real MiniLM: what leaves weft answers as before, in transformers and in sentence-transformers."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import torch
import transformers

import weft
from tests.support.exported import CLOSE
from tests.support.tiny import scramble
from weft.interop import export_hf, export_sentence_transformers

TEXTS = [
    "A wonderful film, from the first minute to the last.",
    "Too long, and not funny at all.",
    "Zürich, naïve café — 雨が降る ☂ and antidisestablishmentarianism. " * 20,
]
NEAR = {"rel": 1e-5, "abs": 1e-5}


@pytest.fixture(scope="module")
def model():
    tasks = [
        weft.Task("reviews", labels=("bad", "good"), pool="cls"),
        weft.Task("entail", labels=("no", "yes"), texts=("a", "b"), pool="task_pooler"),
        weft.Task("mean", labels=("bad", "good")),
        weft.Task("tag", "tag", labels=("noun", "verb", "other"), texts=("words",)),
        weft.Task("sts", "similarity", texts=("a", "b"), range=(0, 5)),
    ]
    return scramble(weft.Model("minilm", tasks, "dora", max_length=64)).eval()


def probabilities(answers):
    return [{answer["label"]: answer["score"] for answer in some} for some in answers]


def test_text_classification(model, tmp_path):
    answer = transformers.pipeline("text-classification", str(export_hf(model, "reviews", tmp_path / "x")))
    answers = probabilities(answer(TEXTS, top_k=None, truncation=True))
    for answer, expected in zip(answers, model.predict("reviews", TEXTS), strict=True):
        assert answer == pytest.approx(expected["probabilities"], **NEAR)


def test_a_pair_that_is_truncated(model, tmp_path):
    answer = transformers.pipeline("text-classification", str(export_hf(model, "entail", tmp_path / "x")))
    pairs = [(a, b) for a in TEXTS for b in TEXTS[1:]]
    inputs = [{"text": a, "text_pair": b} for a, b in pairs]
    for given, expected in zip(inputs, model.predict("entail", pairs), strict=True):
        (found,) = probabilities([answer(given, top_k=None, truncation=True)])
        assert found == pytest.approx(expected["probabilities"], **NEAR)


def test_words_have_the_tag_of_their_first_piece(model, tmp_path):
    tag = transformers.pipeline(
        "token-classification",
        str(export_hf(model, "tag", tmp_path / "x")),
        aggregation_strategy="none",
        ignore_labels=[],
    )
    text = "antidisestablishmentarianism is an unaffable word"
    first = {token["start"]: token["entity"] for token in reversed(tag(text))}
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    assert [first[start] for start in starts] == model.predict("tag", text)["tags"]


def test_the_mean_of_the_tokens(model, tmp_path):
    """By a further block; sentence-transformers has it as a module of its own."""
    folder = export_hf(model, "mean", tmp_path / "hf")
    expected = [answer["probabilities"] for answer in model.predict("mean", TEXTS)]
    answer = transformers.pipeline("text-classification", str(folder))
    for chances, right in zip(
        probabilities(answer(TEXTS, top_k=None, truncation=True)), expected, strict=True
    ):
        assert chances == pytest.approx(right, **NEAR)
    half = transformers.pipeline("text-classification", str(folder), dtype=torch.bfloat16)
    for chances, right in zip(probabilities(half(TEXTS, top_k=None, truncation=True)), expected, strict=True):
        assert chances == pytest.approx(right, abs=0.05)
    package = pytest.importorskip("sentence_transformers")
    logits = package.SentenceTransformer(
        str(export_sentence_transformers(model, "mean", tmp_path / "st", "logits")), device="cpu"
    ).encode(TEXTS, convert_to_tensor=True)
    for chances, right in zip(logits.softmax(-1), expected, strict=True):
        assert chances.tolist() == pytest.approx(list(right.values()), **NEAR)


def test_sentence_similarity(model, tmp_path):
    package = pytest.importorskip("sentence_transformers")
    encoder = package.SentenceTransformer(
        str(export_sentence_transformers(model, "sts", tmp_path / "x")), device="cpu"
    )
    vectors = encoder.encode(TEXTS, convert_to_tensor=True)
    torch.testing.assert_close(vectors, model.embed(TEXTS, "sts"), **CLOSE)
    cosines = encoder.similarity_pairwise(vectors[:2], vectors[1:])
    answers = model.predict("sts", list(pairwise(TEXTS)))
    expected = [answer["value"] for answer in answers]
    assert (5 * cosines.clamp(0, 1)).tolist() == pytest.approx(expected, rel=1e-5, abs=5e-5)
