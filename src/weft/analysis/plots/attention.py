"""Attention maps of a text as SVG."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from torch import Tensor

from weft.analysis.attention import AttentionMap, Layer, most, title_of
from weft.analysis.plots.attention_colors import AttentionColors, channels, color, percent
from weft.utils.markup import escape

EACH_CELL = 20_000
"""Up to this many drawn cells, each cell is an element with a tooltip.

In a larger picture the cells of a head are an image, and each of its rows has a tooltip.
"""

BOXES = 49
"""The boxes of the legend, from the lowest color to the highest; the middle one is white."""

LONGEST_LABEL = 18
GAP, LINE = 14, 16


@dataclass(frozen=True)
class _Look:
    """The settings that all panels of a picture share.

    Attributes:
        colors: the color of each probability.
        cell_tooltips: whether each cell is an element with a tooltip; else a head is an image.
        cell: the side of a cell in pixels.
        margin: the room for the tokens beside and above a panel's cells, in pixels.
    """

    colors: AttentionColors
    cell_tooltips: bool
    cell: float
    margin: float

    @classmethod
    def of(cls, seen: AttentionMap) -> _Look:
        """Settings that fit the tokens and all attentions, so that their colors can be compared."""
        largest = max((float(p.max()) for _, p in seen.layers), default=0.0)
        colors = AttentionColors.of(largest, len(seen.tokens))
        drawn = sum(int((p > colors.floor).sum()) for _, p in seen.layers)
        cell = min(16.0, max(6.0, 480 / len(seen.tokens)))
        widest = max(cell_len(_short(token)) for token in seen.tokens)
        return cls(colors, drawn <= EACH_CELL, cell, round(widest * 0.62 * cell * 0.75 + 6, 1))

    @property
    def font(self) -> float:
        """The size of the tokens' letters."""
        return round(self.cell * 0.75, 1)


def attention_svg(seen: AttentionMap) -> str:
    """Return the SVG: one row per layer, one column per head, each a heat map of L×L cells."""
    return _svg(seen, _Look.of(seen))


def _svg(seen: AttentionMap, look: _Look) -> str:
    side = look.margin + look.cell * len(seen.tokens)
    heads = max((len(p) for _, p in seen.layers), default=0)
    width = max(GAP + heads * (side + GAP), 640)
    height = GAP + len(seen.layers) * (side + LINE + GAP) + 3 * LINE
    panels = [
        _panel(seen.tokens, layer, head, look, GAP + head * (side + GAP), GAP + row * (side + LINE + GAP))
        for row, layer in enumerate(seen.layers)
        for head in range(len(layer.probabilities))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" fill="#222">',
            f"<title>{_escaped(f'Attention of task {seen.task}')}</title>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *panels,
            _legend(look.colors, height - 3 * LINE),
            "</svg>",
        ]
    )


def _panel(tokens: tuple[str, ...], layer: Layer, head: int, look: _Look, x: float, y: float) -> str:
    """One head: its title, the tokens on both axes, and the cells in units of a cell's side."""
    count = len(tokens)
    size, edge = look.cell, look.margin
    lines = [
        f'<g class="panel" transform="translate({x:.1f},{y:.1f})">',
        f'<text x="{edge}" y="11" font-size="11">{_escaped(title_of(layer.name))}, head {head}</text>',
        f'<g transform="translate({edge},{edge + LINE})" font-size="{look.font}">',
    ]
    for number, token in enumerate(tokens):
        at, label = (number + 0.75) * size, _label(token)
        lines.append(f'<text x="-4" y="{at:.1f}" text-anchor="end">{label}</text>')
        lines.append(f'<text transform="translate({at:.1f},-4) rotate(-90)">{label}</text>')
    # cells with the lowest color are the background
    lines.append(
        f'<rect class="background" width="{count * size:.1f}" height="{count * size:.1f}" '
        f'fill="{color(-1.0)}"/>'
    )
    # crisp: the background must not shine through between two cells
    lines.append(f'<g transform="scale({size:.4f})" shape-rendering="crispEdges">')
    draw = _cells if look.cell_tooltips else _image
    lines += draw(tokens, layer.probabilities[head], look.colors)
    frame = f'<rect width="{count * size:.1f}" height="{count * size:.1f}" fill="none" stroke="#bbb"/>'
    return "\n".join([*lines, "</g>", frame, "</g></g>"])


def _cells(tokens: tuple[str, ...], probabilities: Tensor, colors: AttentionColors) -> Iterator[str]:
    """Every cell [L, L] above the lowest color, with a tooltip."""
    levels = colors.levels(probabilities.numpy())
    for row, column in (probabilities > colors.floor).nonzero().tolist():
        share = percent(float(probabilities[row, column]))
        tooltip = f"{_apart(tokens[row])} attends to {_apart(tokens[column])}: {share}"
        yield (
            f'<rect class="cell" x="{column}" y="{row}" width="1" height="1" '
            f'fill="{color(levels[row, column])}"><title>{_escaped(tooltip)}</title></rect>'
        )


def _image(tokens: tuple[str, ...], probabilities: Tensor, colors: AttentionColors) -> Iterator[str]:
    """Like `_cells`, as a PNG with one pixel per cell, and one tooltip per row.

    A cell then takes about three bytes instead of a hundred.
    """
    from matplotlib.image import imsave

    png = io.BytesIO()
    pixels = channels(colors.levels(probabilities.numpy()))
    unsigned: dict[str, Any] = {"Software": None}  # else the bytes would depend on matplotlib's version
    imsave(png, pixels, format="png", metadata=unsigned)
    data = b64encode(png.getvalue()).decode()
    count = len(tokens)
    # optimizeSpeed: for programs that do not know pixelated
    yield (
        f'<image width="{count}" height="{count}" preserveAspectRatio="none" '
        'image-rendering="optimizeSpeed" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/>'
    )
    for row, shares in enumerate(probabilities):
        looks = ", ".join(f"{_apart(tokens[t])} {percent(share)}" for t, share in most(shares))
        tooltip = f"{_apart(tokens[row])} attends most to {looks}"
        yield (
            f'<rect class="row" y="{row}" width="{count}" height="1" fill="none" pointer-events="all">'
            f"<title>{_escaped(tooltip)}</title></rect>"
        )


def _legend(colors: AttentionColors, y: float) -> str:
    width = 5
    boxes = "".join(
        f'<rect x="{number * width}" y="0" width="{width}" height="12" fill="{color(level)}"/>'
        for number, level in enumerate(legend_levels())
    )
    edge = BOXES * width
    return (
        f'<g class="legend" transform="translate({GAP},{y:.1f})" font-size="11">{boxes}'
        f'<rect class="frame" width="{edge}" height="12" fill="none" stroke="#bbb"/>'
        f'<text x="{edge + 8}" y="10">{colors.describe()}</text>'
        '<text x="0" y="28">How much a token (row) attends to a token (column). A row sums to 100%.</text>'
        "</g>"
    )


def legend_levels() -> list[float]:
    """The levels of the legend's boxes, from −1 to 1."""
    half = BOXES // 2
    return [(number - half) / half for number in range(BOXES)]


def _label(token: str) -> str:
    short = _short(token)
    return _escaped(short) if short == token else f"<title>{_escaped(token)}</title>{_escaped(short)}"


def _short(token: str) -> str:
    return token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…"


def _apart(token: str) -> str:
    """Isolate a token, so that a right-to-left token does not reorder the text around it."""
    return token if token.isascii() else f"\u2068{token}\u2069"


def _escaped(text: str) -> str:
    """A text for XML; a token isolates itself (`_apart`), so its direction marks stay."""
    return escape(text, direction=True)
