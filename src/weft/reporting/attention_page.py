"""The attention maps of a text as a page: `weft show attention --html`.

All heads have the same colors, and one key explains them: no color at the even share 1/L, blue above it,
orange below it (`weft.analysis.plots.attention_colors`). The values are written at the pointer, or at the
cell that the arrow keys have reached.
"""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.analysis.attention import AttentionMap, most, received_attention, title_of
from weft.analysis.plots.attention_colors import AttentionColors, percent
from weft.reporting.assets import asset
from weft.reporting.page import Section, page
from weft.reporting.pictures.frame import TEXT, Box, fixed, svg
from weft.reporting.pictures.heat_map import fixed2
from weft.reporting.tables import Table
from weft.utils.markup import Html, escape, join, tag
from weft.utils.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

EACH_CELL = 20_000
"""Up to this many drawn cells, each is an element; in a larger page the cells of a head are an image."""
STRONGEST, PALEST = 0.58, 0.35
"""The opacity of the strongest blue and of the strongest orange. Most tokens are below the even share, and
those above it should catch the eye."""
LONGEST = 18
KEY_BOXES = 41
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
BLUE, ORANGE = (11, 98, 164), (192, 64, 0)


def attention_html(seen: AttentionMap, source: int | None = None) -> str:
    """The page: for each layer the heat map of every head, and the text with shaded tokens.

    Args:
        seen: the attentions.
        source: the number of the query token that shades the tokens, or None for the mean over all.
    """
    shares = received_attention(seen, source)
    largest = max((float(p.max()) for _, p in seen.layers), default=0.0)
    colors = AttentionColors.of(largest, len(seen.tokens))
    drawn = sum(int((p > colors.floor).sum()) for _, p in seen.layers)
    who = "all tokens, their mean" if source is None else f"token {source}, {seen.tokens[source]}"
    about: list[object] = [tag("bdi", text, class_="quote") for text in seen.texts]
    sections = [
        Section(
            "key",
            "Key",
            join(
                [
                    _key(colors),
                    tag(
                        "p",
                        "A row of a map is a token that attends, a column a token that is attended to; "
                        "a row sums to 100 %. Point at a cell, or move through a map with the arrow keys.",
                    ),
                    tag("p", f"Shaded tokens: the attention that each receives from {who}."),
                ]
            ),
        )
    ]
    for number, (layer, (name, of_heads)) in enumerate(zip(seen.layers, shares, strict=True)):
        title = title_of(name)
        maps = [
            _head(
                seen.tokens,
                layer.probabilities[head],
                colors,
                f"{title}, head {head}",
                f"m{number}-{head}",
                drawn <= EACH_CELL,
            )
            for head in range(len(layer.probabilities))
        ]
        words = [
            tag(
                "p",
                tag("b", f"head {head}"),
                _sentence(seen.tokens, of_tokens.tolist(), colors),
                class_="sentence",
            )
            for head, of_tokens in enumerate(of_heads)
        ]
        body = [tag("div", *maps, class_="maps"), *words, _table(seen.tokens, of_heads, title, who)]
        sections.append(Section(f"layer-{number}", title, join(body)))
    status = tag("p", "Point at a cell to read its value.", id="value-at", class_="value-at", role="status")
    return page(
        f"Attention of task {seen.task}",
        about,
        sections,
        f"weft {__version__}: weft show attention",
        style=asset("attention.css") + token_style(),
        script=asset("attention.js"),
        tail=join(
            [status, tag("ol", *(tag("li", token) for token in seen.tokens), id="tokens", hidden=True)]
        ),
    )


def _key(colors: AttentionColors) -> Html:
    """The one key of the page."""
    width = 420 / KEY_BOXES
    half = KEY_BOXES // 2
    boxes = [_rect((number - half) / half, 10 + number * width, 8, width, 16) for number in range(KEY_BOXES)]
    labels = [
        tag("text", text, class_="tick", x=fixed(x), y=40, text_anchor=anchor)
        for text, x, anchor in (
            (f"{percent(colors.floor)} or less", 10.0, "start"),
            (f"even share, {percent(colors.even)}", 220.0, "middle"),
            (percent(colors.top), 430.0, "end"),
        )
    ]
    frame = tag("rect", class_="frame", x=10, y=8, width=420, height=16)
    box = Box(440, 48)
    return svg("key-picture", "Colors", colors.describe(), box, *boxes, frame, *labels, class_="map")


def _rect(level: float, x: float, y: float, width: float, height: float) -> Html:
    """A box in the color of a level from −1 to 1."""
    return tag(
        "rect",
        class_=f"level {'above' if level > 0 else 'below'}",
        x=fixed2(x),
        y=fixed2(y),
        width=fixed2(width),
        height=fixed2(height),
        fill_opacity=fixed2(opacity(level)),
    )


def opacity(level: float) -> float:
    """How strong the color of a level is: nothing at the even share."""
    return STRONGEST * level if level > 0 else -PALEST * level


def _head(
    tokens: Sequence[str], probabilities: Tensor, colors: AttentionColors, name: str, key: str, cells: bool
) -> Html:
    """The map of one head [L, L], with its values for the script."""
    count = len(tokens)
    cell = round(min(16.0, max(6.0, 480 / count)), 2)
    margin = round(10 + TEXT * 0.95 * max(min(len(token), LONGEST) for token in tokens), 1)
    box = Box(margin + cell * count + 4, margin + cell * count + 4)
    parts: list[Html] = []
    every = math.ceil(12 / cell)  # names of small cells would overlap
    for number, token in enumerate(tokens):
        if number % every:
            continue
        at = margin + (number + 0.5) * cell + 4
        turned = f"translate({fixed(at)} {fixed(margin - 4)}) rotate(-90)"
        label = short(token)
        parts.append(tag("text", label, class_="label", x=fixed(margin - 4), y=fixed(at), text_anchor="end"))
        parts.append(tag("text", label, class_="label", transform=turned))
    levels = colors.levels(probabilities.numpy())
    if cells:
        inside = join(
            _rect(float(levels[row, column]), column, row, 1, 1)
            for row in range(count)
            for column in range(count)
            if abs(levels[row, column]) >= 0.01
        )
    else:
        inside = _image(levels, count)
    grid = tag(
        "g", inside, transform=f"translate({margin} {margin}) scale({cell})", shape_rendering="crispEdges"
    )
    frame = tag(
        "rect", class_="frame", x=margin, y=margin, width=fixed(cell * count), height=fixed(cell * count)
    )
    row, column = divmod(int(probabilities.argmax()), count)
    description = (
        f"Largest: {tokens[row]} attends to {tokens[column]}, {percent(float(probabilities.max()))}."
    )
    picture = svg(key, name, description, box, *parts, grid, frame, class_="map")
    values = {"data_values": encoded(probabilities), "data_name": name, "data_cell": cell}
    focus = {"tabindex": 0, "role": "group", "aria_label": f"{name}: the arrow keys move through its values"}
    return tag(
        "figure",
        tag("figcaption", name),
        tag("div", picture, class_="scroll", data_origin=f"{margin} {margin}", **values, **focus),
        tag("p", description, class_="note"),
    )


def encoded(probabilities: Tensor) -> str:
    """Shares as text, two letters each: ⌊4095·p⌉ in base 64."""
    numbers = (4095 * probabilities.clamp(0, 1)).round().int().flatten().tolist()
    return "".join(LETTERS[number >> 6] + LETTERS[number & 63] for number in numbers)


def _image(levels: Any, count: int) -> Html:
    """The cells of a head as a PNG with one pixel per cell, transparent at the even share."""
    import numpy as np
    from matplotlib.image import imsave

    pixels = np.zeros((count, count, 4), np.uint8)
    pixels[..., :3] = np.where((levels > 0)[..., None], BLUE, ORANGE)
    pixels[..., 3] = np.rint(255 * np.where(levels > 0, STRONGEST * levels, -PALEST * levels))
    png = io.BytesIO()
    unsigned: dict[str, Any] = {"Software": None}  # else the bytes would depend on matplotlib's version
    imsave(png, pixels, format="png", metadata=unsigned)
    data = b64encode(png.getvalue()).decode()
    return tag(
        "image",
        width=count,
        height=count,
        preserveAspectRatio="none",
        image_rendering="pixelated",
        href=f"data:image/png;base64,{data}",
    )


def token_style() -> str:
    """The backgrounds of shaded tokens: `.u0` to `.u20` above the even share, `.d0` to `.d20` below."""
    return "".join(
        f".{side}{step}{{background:color-mix(in srgb,var(--{hue}) {5 * strength * step:.1f}%,transparent)}}"
        for side, hue, strength in (("u", "above", STRONGEST), ("d", "below", PALEST))
        for step in range(21)
    )


def _sentence(tokens: Sequence[str], shares: Sequence[float], colors: AttentionColors) -> Html:
    """The tokens, each on the color of its share; `bdi` keeps mixed writing directions in order."""
    return join(_tokens(tokens, shares, colors), " ")


def _tokens(tokens: Sequence[str], shares: Sequence[float], colors: AttentionColors) -> Iterator[Html]:
    for token, share, level in zip(tokens, shares, colors.levels(shares).tolist(), strict=True):
        step = f"{'u' if level > 0 else 'd'}{round(20 * abs(level))}"
        yield tag("bdi", token, class_=f"token {step}", title=percent(share))


def _table(tokens: Sequence[str], of_heads: Tensor, title: str, who: str) -> Html:
    """The attention that each token receives, by head, to be unfolded."""
    by_head = [of_tokens.tolist() for of_tokens in of_heads]
    rows = [
        [f"{number}: {token}", *(f"{100 * shares[number]:.1f}" for shares in by_head)]
        for number, token in enumerate(tokens)
    ]
    columns = ("token", *(f"head {head}" for head in range(len(by_head))))
    tops = [
        f"head {head}: " + ", ".join(f"{tokens[t]} {percent(share)}" for t, share in most(of_tokens))
        for head, of_tokens in enumerate(of_heads)
    ]
    caption = f"{title}: attention in percent that each token receives from {who}"
    table = Table(caption, columns, rows, notes=[f"Most: {'; '.join(tops)}."])
    return tag("details", tag("summary", "Numbers: the attention that each token receives"), table.html())


def short(token: str) -> Html:
    """A token, shortened for an axis."""
    return escape(token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…")
