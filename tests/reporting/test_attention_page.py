"""The page of attention maps: cells, values, shaded tokens and one key, whatever the text."""

from __future__ import annotations

import pytest
import torch

from tests.support.outline import HOSTILE, check_page
from weft.analysis.attention import AttentionMap, Layer
from weft.analysis.plots.attention_colors import percent
from weft.errors import WeftError
from weft.reporting import attention_page
from weft.reporting.attention_page import LETTERS, attention_html, encoded, opacity


def made(tokens, heads=2, sharp=3.0, layers=2, text="a text"):
    tokens = ("[CLS]", *tokens, "[SEP]")
    draw = torch.Generator().manual_seed(len(tokens))
    shape = (heads, len(tokens), len(tokens))
    return AttentionMap(
        "t",
        (text,),
        tokens,
        tuple(
            Layer(f"{n}/ffn_delta", (sharp * torch.randn(shape, generator=draw)).softmax(-1))
            for n in range(layers)
        ),
    )


def decoded(text):
    """What the page's script reads."""
    places = [LETTERS.index(letter) for letter in text]
    return [(64 * a + b) / 4095 for a, b in zip(places[::2], places[1::2], strict=True)]


def maps(outline):
    return [
        a for a in outline.named("svg") if a.get("role") == "img" and a["aria-labelledby"].startswith("m")
    ]


def test_values_survive_the_page():
    seen = made(("the", "cat"))
    outline = check_page(attention_html(seen))
    heads = [a for a in outline.named("div") if "data-values" in a]
    assert len(heads) == len(maps(outline)) == 4
    expected = [p for _, layer in seen.layers for p in layer]
    for attributes, probabilities in zip(heads, expected, strict=True):
        assert decoded(attributes["data-values"]) == pytest.approx(probabilities.flatten().tolist(), abs=2e-4)
        assert attributes["tabindex"] == "0"


def test_numbers_out_of_range_are_clamped():
    assert decoded(encoded(torch.tensor([[1.0000001, 0.0], [0.5, 1.0]]))) == pytest.approx(
        [1, 0, 0.5, 1], abs=2e-4
    )


def test_there_is_one_key():
    outline = check_page(attention_html(made(("the", "cat"))))
    assert [text for text in outline.inside("h2") if text == "Key"] == ["Key"]
    assert len([text for text in outline.inside("text") if text.startswith("even share")]) == 1


def test_an_even_attention_has_no_color():
    even = AttentionMap("t", ("x",), ("a", "b", "c"), (Layer("0/block", torch.full((1, 3, 3), 1 / 3)),))
    outline = check_page(attention_html(even))
    tokens = [a["class"] for a in outline.named("bdi") if "token" in a["class"]]
    assert set(tokens) <= {"token u0", "token d0"}  # a rounding error may be on either side
    assert opacity(0.0) == 0
    cells = [a for a in outline.named("rect") if a["class"].startswith("level") and a.get("height") == "1"]
    assert cells == []


@pytest.mark.parametrize("source", [None, 2])
def test_tokens_are_shaded_by_what_they_receive(source):
    seen = made(("the", "<cat>"))
    outline = check_page(attention_html(seen, source))
    head = seen.layers[0].probabilities[0]
    expected = head.mean(0) if source is None else head[source]
    titles = [a["title"] for a in outline.named("bdi") if "title" in a]
    assert titles[: len(seen.tokens)] == [percent(share) for share in expected.tolist()]
    who = "all tokens, their mean" if source is None else "token 2, <cat>"
    assert any(text.endswith(f"receives from {who}.") for text in outline.inside("p"))


def test_a_token_that_is_not_there_is_refused():
    with pytest.raises(WeftError, match="token 9 is outside"):
        attention_html(made(("a", "b")), 9)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_tokens_and_texts_do_nothing(text):
    seen = made((text, "cat"), text=text)
    outline = check_page(attention_html(seen))
    assert "owned" not in outline.ids
    assert len(outline.inside("script")) == 1


def test_a_large_page_has_images_and_the_same_values(monkeypatch):
    seen = made(tuple(f"w{n}" for n in range(20)), sharp=1.0)
    small = attention_html(seen)
    monkeypatch.setattr(attention_page, "EACH_CELL", 10)
    large = attention_html(seen)
    assert len(large) < len(small)
    values = [
        [a["data-values"] for a in check_page(page).named("div") if "data-values" in a]
        for page in (small, large)
    ]
    assert values[0] == values[1]
    assert len(check_page(large).named("image")) == 4


def test_a_text_as_long_as_encoders_take_stays_small():
    seen = made(("word",) * 126, heads=6, sharp=2.0)
    page = attention_html(seen)
    assert len(page) / 2 < 600_000  # a layer of six heads
    check_page(page)
