"""The shell of a page: one HTML file with its style and script inside, and nothing from elsewhere.

A Content-Security-Policy allows the page's own style and script, by their hashes, and nothing else: no
request can leave the page, and markup that came in with a text would not run.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from weft.reporting.assets import asset
from weft.reporting.pictures.frame import legend_key
from weft.reporting.pictures.scatter import mark_key
from weft.utils.markup import Html, join, tag


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        key: unique in its page, of letters, digits and hyphens: the target of links to it.
        title: its heading.
        body: its content.
        chapter: the title of the source that it is about, if a page has several; "": it is about all.
        name: its title inside of its chapter; "": its heading.
    """

    key: str
    title: str
    body: Html
    chapter: str = ""
    name: str = ""


def page(
    title: str,
    about: Sequence[object],
    sections: Sequence[Section],
    made_by: str,
    style: str = "",
    script: str = "",
    tail: Html | None = None,
) -> str:
    """A whole page.

    Args:
        title: its title.
        about: lines below the title.
        sections: its parts, in order.
        made_by: the last line, such as the version and the command that writes the page again.
        style: further rules of the style sheet.
        script: a further script.
        tail: what stands below the last section, such as a line that stays in sight.
    """
    style = "\n".join([asset("picture.css"), asset("page.css"), style])
    script = "\n".join([asset("page.js"), script])
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag(
                "div",
                tag("h1", title),
                tag("button", "Dark theme", id="theme", type="button", hidden=True),
                class_="top",
            ),
            *(tag("p", line) for line in about),
            tag("nav", *_contents(sections), aria_label="Contents") if len(sections) > 1 else None,
        ),
        tag("main", *_parts(sections), tail, id="content", tabindex=-1),
        tag("footer", tag("p", made_by)),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _contents(sections: Sequence[Section]) -> list[Html]:
    """Links to the sections; those of a chapter are folded under its title."""
    lists = []
    for chapter, parts in groupby(sections, key=lambda part: part.chapter):
        links = (tag("li", tag("a", part.name or part.title, href=f"#{part.key}")) for part in parts)
        inside = tag("ul", *links)
        lists.append(tag("details", tag("summary", chapter), inside) if chapter else inside)
    return lists


def _parts(sections: Sequence[Section]) -> list[Html]:
    """The sections; before the first one of a chapter stands its title."""
    shown = []
    for chapter, parts in groupby(sections, key=lambda part: part.chapter):
        shown += [tag("h2", chapter, class_="chapter")] if chapter else []
        shown += map(_section, parts)
    return shown


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy: this style and this script, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def figure(
    caption: str,
    picture: Html,
    table: Html | None = None,
    class_: str = "",
    notes: Sequence[str] = (),
    legend: Html | None = None,
) -> Html:
    """A picture with its caption and, to be unfolded, the table of its numbers.

    Args:
        caption: what it shows.
        picture: the SVG element.
        table: its numbers.
        class_: `wide`: as wide as the page; `fill`: stretched to the width; `keep`: never shrunk, but
            scrolled.
        notes: sentences below the picture.
        legend: what stands beside the picture, or below it on a narrow screen.
    """
    numbers = (
        tag("details", tag("summary", "Numbers behind this picture"), table) if table is not None else None
    )
    # a picture that is not shrunk may be scrolled, so the keyboard must reach it
    focus = {"tabindex": 0, "role": "group", "aria_label": caption} if "keep" in class_.split() else {}
    shown = tag("div", picture, class_="scroll", **focus)
    return tag(
        "figure",
        tag("figcaption", caption),
        shown if legend is None else tag("div", shown, legend, class_="side"),
        *(tag("p", note, class_="note") for note in notes),
        numbers,
        class_=class_ or None,
    )


def legend(
    names: Sequence[str], numbers: Sequence[int] | None = None, filled: bool = False, dots: bool = False
) -> Html:
    """A list of series with a sample of each.

    Args:
        names: the series.
        numbers: the number of each, which says how it looks; by default their places.
        filled: whether series are areas.
        dots: whether series are marks of a scatter plot.
    """
    places = range(len(names)) if numbers is None else numbers
    items = [
        tag("li", mark_key(number) if dots else legend_key(number, filled), name)
        for number, name in zip(places, names, strict=True)
    ]
    return tag("ul", *items, class_="legend")


def switches(names: Sequence[str], numbers: Sequence[int], shown: Sequence[str]) -> Html:
    """A legend with a box per series, which colors its lines in all charts of the section.

    Args:
        names: the series.
        numbers: the number of each, which says how it looks.
        shown: those that are in color at first.
    """
    boxes = [
        tag(
            "label",
            tag(
                "input",
                type="checkbox",
                data_series=number,
                checked=name in shown,
                disabled=True,  # until the script is there
                autocomplete="off",
            ),
            legend_key(number),
            tag("span", name),
        )
        for number, name in zip(numbers, names, strict=True)
    ]
    return tag("fieldset", tag("legend", "In color"), tag("div", *boxes, class_="choices"), class_="legend")


def absent(what: str, how: object) -> Html:
    """The line that stands for a part that is left out: what is missing, and how to get it."""
    return tag("p", f"{what}: ", how, class_="absent")


def code(text: str) -> Html:
    """A word that a user types."""
    return tag("code", text)


def cards(facts: Sequence[tuple[str, object]]) -> Html:
    """A few facts in large letters."""
    return tag(
        "div",
        *(tag("dl", tag("dt", name), tag("dd", value), class_="card") for name, value in facts),
        class_="cards",
    )


def paragraphs(*parts: object) -> Html:
    """Each part in a paragraph of its own."""
    return join(tag("p", part) for part in parts)


def _section(part: Section) -> Html:
    return tag(
        "section",
        tag("h2", part.title, id=f"{part.key}-heading"),
        part.body,
        id=part.key,
        aria_labelledby=f"{part.key}-heading",
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
