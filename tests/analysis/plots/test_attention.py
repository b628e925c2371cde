"""The pictures: they parse, whatever the text, and show every cell that there is to see."""

from __future__ import annotations

import base64
import io
import re
from xml.etree import ElementTree

import pytest
import torch

from weft.analysis.attention import AttentionMap, Layer
from weft.analysis.plots import attention as attention_picture
from weft.analysis.plots.attention import attention_svg, legend_levels
from weft.analysis.plots.attention_colors import AttentionColors, color, percent

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = {
    "plain": ("the", "cat"),
    "markup": ("<b>", "&", '"', "'", "]]>", "<!--", "</title>", "&amp;"),
    "CJK": ("日本", "語", "한국"),
    "right to left": ("שלום", "##ל", "مرحبا"),
    "no XML": ("\x00", "\x1b[31m", "\ufffe", "\x0b"),
    "long": ("x" * 200, "🧶"),
}


def made(tokens, heads=2, sharp=3.0, names=("0/ffn_delta", "top/0"), text=None):
    tokens = ("[CLS]", *tokens, "[SEP]")
    generator = torch.Generator().manual_seed(len(tokens))
    shape = (heads, len(tokens), len(tokens))
    layers = tuple(Layer(n, (sharp * torch.randn(shape, generator=generator)).softmax(-1)) for n in names)
    return AttentionMap("t", (" ".join(tokens) if text is None else text,), tokens, layers)


def colors_of(seen):
    return AttentionColors.of(max(float(p.max()) for _, p in seen.layers), len(seen.tokens))


def drawn(seen):
    return sum(int((p > colors_of(seen).floor).sum()) for _, p in seen.layers)


def of_class(tree, kind, name):
    return [e for e in tree.iter(f"{SVG}{kind}") if e.get("class") == name]


@pytest.mark.parametrize("case", HOSTILE)
def test_the_svg_parses_and_has_the_cells(case):
    seen = made(HOSTILE[case])
    tree = ElementTree.fromstring(attention_svg(seen))
    assert tree.tag == f"{SVG}svg"
    assert len(of_class(tree, "g", "panel")) == 4  # two layers of two heads
    cells = of_class(tree, "rect", "cell")
    assert 0 < len(cells) == drawn(seen) < sum(p.numel() for _, p in seen.layers)
    # a cell that is not drawn has the color of the background
    grounds = of_class(tree, "rect", "background")
    assert {ground.get("fill") for ground in grounds} == {color(-1.0)}
    titles = [panel[0].text for panel in of_class(tree, "g", "panel")]
    assert titles[0] == "layer 0 (0/ffn_delta), head 0"
    assert titles[3] == "on top (top/0), head 1"


def test_a_cell_is_where_it_should_be_and_says_what_it_is():
    seen = made(("<b>", "שלום"))
    tree = ElementTree.fromstring(attention_svg(seen))
    colors = colors_of(seen)
    panels = of_class(tree, "g", "panel")
    for panel, head in zip(panels, [h for _, p in seen.layers for h in p], strict=True):
        for cell in of_class(panel, "rect", "cell"):
            row, column = int(cell.get("y")), int(cell.get("x"))
            share = float(head[row, column])
            assert share > colors.floor
            assert cell.get("fill") == color(float(colors.levels(share)))
            told = re.sub("[\u2068\u2069]", "", cell[0].text)  # marks that keep the direction
            assert told == f"{seen.tokens[row]} attends to {seen.tokens[column]}: {percent(share)}"


def test_both_axes_carry_every_token_and_a_long_one_its_whole_name():
    seen = made(("cat", "x" * 200))
    panel = of_class(ElementTree.fromstring(attention_svg(seen)), "g", "panel")[0]
    texts = ["".join(e.itertext()) for e in panel.iter(f"{SVG}text")][1:]
    assert texts.count("cat") == texts.count("[CLS]") == 2
    assert sum(text.startswith("x" * 200) for text in texts) == 2


def test_the_legend_says_what_the_scale_is():
    seen = made(("the", "cat"))
    legend = of_class(ElementTree.fromstring(attention_svg(seen)), "g", "legend")[0]
    boxes = [e.get("fill") for e in legend.iter(f"{SVG}rect") if e.get("class") is None]
    assert boxes == [color(level) for level in legend_levels()]
    assert (boxes[0], boxes[len(boxes) // 2], boxes[-1]) == (color(-1.0), "#ffffff", color(1.0))
    assert colors_of(seen).describe() in " ".join(legend.itertext())
    assert "white: the even share, 25.0%" in " ".join(legend.itertext())


def pixels(panel):
    """The cells of a panel's image above the lowest color, with their colors."""
    from matplotlib.image import imread

    (image,) = panel.iter(f"{SVG}image")
    kind, _, data = image.get("href").partition("base64,")
    assert kind == "data:image/png;"
    shades = (255 * imread(io.BytesIO(base64.b64decode(data)))).round().astype(int)[..., :3]
    assert shades.shape[:2] == (int(image.get("height")), int(image.get("width")))
    found = {
        (row, column): f"#{r:02x}{g:02x}{b:02x}"
        for row, line in enumerate(shades.tolist())
        for column, (r, g, b) in enumerate(line)
    }
    return {place: shade for place, shade in found.items() if shade != color(-1.0)}


def test_a_large_picture_shows_the_same_cells_in_fewer_bytes(monkeypatch):
    seen = made(tuple(f"w{number}" for number in range(30)), sharp=1.0)
    small = attention_svg(seen)
    monkeypatch.setattr(attention_picture, "EACH_CELL", drawn(seen) - 1)
    large = attention_svg(seen)
    assert large == attention_svg(seen)  # the same bytes in every call
    assert len(large) < len(small) / 3
    panels = [of_class(ElementTree.fromstring(svg), "g", "panel") for svg in (small, large)]
    for one, other in zip(*panels, strict=True):
        cells = of_class(one, "rect", "cell")
        fills = {(int(c.get("y")), int(c.get("x"))): c.get("fill") for c in cells}
        assert pixels(other) == {place: fill for place, fill in fills.items() if fill != color(-1.0)}
        rows = of_class(other, "rect", "row")
        assert [int(row.get("y")) for row in rows] == list(range(32))
        assert rows[1][0].text.startswith("w0 attends most to ")


def test_a_text_as_long_as_encoders_take_stays_small():
    seen = made(("word",) * 126, heads=6, sharp=2.0, names=[f"{n}/ffn_delta" for n in range(2)])
    assert len(attention_svg(seen)) / 2 < 550_000  # a layer of six heads
