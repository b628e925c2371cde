"""Rows of more than 512 tokens, on an encoder without a table of positions."""

from __future__ import annotations

import random
from functools import partial

import pytest

import weft
from tests.support.near import assert_near
from tests.support.tiny import scramble
from tests.support.tiny_run import WORDS, save_encoder
from weft.errors import WeftError
from weft.inference import batches, ladder
from weft.inference.captured import USES

LENGTH = 1024


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"), "modernbert")


def words(count: int, seed: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def tasks() -> list[weft.Task]:
    rows = [{"text": " ".join(words(n, n)), "label": ("no", "yes")[n % 2]} for n in (9, 700, 1500, 2501)]
    tagged = [{"words": words(n, n), "tags": [("O", "B-x")[i % 2] for i in range(n)]} for n in (8, 900, 2500)]
    return [
        weft.Task("one", labels=("no", "yes"), data={"train": rows, "validation": rows}),
        weft.Task(
            *("tags", "tag"),
            labels=("O", "B-x", "I-x"),
            texts=("words",),
            label="tags",
            data={"train": tagged, "validation": tagged},
        ),
    ]


def test_a_text_is_cut_at_max_length_and_words_are_not(encoder):
    model = weft.Model(encoder, tasks(), "lora", max_length=LENGTH)
    text = words(3000, 1)
    kept = LENGTH - 2  # beside [CLS] and [SEP]
    whole, cut, shorter = model.predict(
        [("one", " ".join(part)) for part in (text, text[:kept], text[: kept - 500])]
    )
    assert whole["probabilities"] == pytest.approx(cut["probabilities"], abs=1e-6)
    assert whole["probabilities"] != pytest.approx(shorter["probabilities"], abs=1e-6)
    (tagged,) = model.predict([("tags", text)])
    assert len(tagged["tags"]) == 3000  # in windows, so that every word has a tag


def test_a_model_trains_on_rows_of_1024_tokens(encoder, tmp_path):
    model = weft.Model(encoder, tasks(), "lora", max_length=LENGTH)
    training = weft.Training(steps=2, batch_size=4, mixed=True, max_length=LENGTH, precision="float32")
    weft.train(model, training, tmp_path / "run", progress=False)
    again = weft.load(tmp_path / "run" / "bundle")
    assert again.max_length == LENGTH
    request = [("one", " ".join(words(2000, 3)))]
    assert again.predict(request)[0]["probabilities"] == pytest.approx(
        model.predict(request)[0]["probabilities"], abs=1e-5
    )


@pytest.mark.parametrize("batch_size", [None, 3])
def test_long_rows_that_fill_a_batch_are_not_captured(encoder, capturing, monkeypatch, batch_size):
    """On a GPU a pass over them takes longer than its launches; they are answered as all others are."""
    model = scramble(weft.Model(encoder, tasks(), "lora", max_length=LENGTH)).eval()
    counts = [900, 12, 1400, 30, 600, 7, 2500, 515]
    requests = [(name, words(count, count)) for count in counts for name in ("one", "tags")]
    requests = [(name, " ".join(text) if name == "one" else text) for name, text in requests]
    monkeypatch.setattr(ladder, "long_rows", partial(batches.long_rows, budget=4 * LENGTH))
    for _ in range(USES):
        answers = model.predict(requests, batch_size=batch_size)
    captured = model.captures.of(model, "float32")
    shapes = [{name: shape for name, _, shape in form[0]}["input_ids"] for form in captured._passes]
    assert shapes
    assert all(length <= batches.LONG for _, length in shapes)
    monkeypatch.undo()
    assert_near(answers, model.predict(requests))


def test_a_single_long_row_is_captured(encoder, capturing):
    model = weft.Model(encoder, tasks(), "lora", max_length=LENGTH).eval()
    for _ in range(USES):
        model.predict([("one", " ".join(words(2000, 3)))])
    assert model.captures.of(model, "float32").shapes == 1


def test_an_encoder_with_a_table_of_positions_refuses_longer_rows(tmp_path):
    with pytest.raises(WeftError, match="max_length 1024 is more than"):
        weft.Model(save_encoder(tmp_path / "bert"), tasks(), "lora", max_length=LENGTH)
