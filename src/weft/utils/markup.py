"""HTML and SVG from texts of any origin: one function escapes everything that is not markup already.

Task names, labels, texts and messages come from data. `escape` makes them harmless between tags and between
the quotes of an attribute. `tag` applies it to every child and every attribute, so that a caller cannot
forget it: only what `tag`, `join` or `escape` returned is taken as it is.

Example:
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from weft.utils.terminal import escaped


class Html(str):
    """Markup: text that must not be escaped again."""

    __slots__ = ()


VOID = ("br", "circle", "input", "line", "meta", "path", "polygon", "rect", "use", "image", "col")
"""Elements without content."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:-]*")


def escape(value: object, direction: bool = False) -> Html:
    """Return a value as markup: `<`, `>`, `&` and quotes are escaped, control characters spelled out.

    Args:
        value: any value; one that is `Html` is returned as it is.
        direction: whether characters that change the direction of writing stay. They must be closed inside
            the same element.
    """
    if isinstance(value, Html):
        return value
    text = str(value) if direction else escaped(str(value))
    return Html(html.escape(spelled(text)))


def spelled(text: str) -> str:
    """Return a text in which characters that XML forbids are spelled out."""
    return _NOT_XML.sub(lambda bad: bad[0].encode("unicode_escape").decode(), text)


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element.

    Args:
        name: its name.
        children: its content: markup, or texts, which are escaped; None is left out.
        attributes: its attributes. `class_` and `for_` are written without the underscore, `aria_label` with
            a hyphen. None and False are left out, True is an attribute without a value.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        if not _NAME.fullmatch(written):
            raise ValueError(f"{key!r} is no name of an attribute")
        parts.append(written if value is True else f'{written}="{escape(value)}"')
    start = " ".join(parts)
    if name in VOID and not children:
        return Html(f"<{start}/>")
    return Html(f"<{start}>{join(children)}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """Return several parts as one; texts are escaped, None is left out.

    Args:
        parts: markup or texts.
        between: what stands between two of them, a text.
    """
    return Html(escape(between).join(escape(part) for part in parts if part is not None))
