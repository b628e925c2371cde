"""Docstrings for Sphinx: weft writes them as plain text with `code`, and Sphinx reads reStructuredText."""

from __future__ import annotations

import inspect
import re
from typing import Any

SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
MARKUP = re.compile(r"([\\*|])|(?<=\w)(_)(?!\w)")
"""What reStructuredText reads as markup and weft means as it is: `a*b`, `|x|`, `W_`."""

INDENTED = re.compile(r"^ *(>>>|\.\.\.|$)")


def as_rst(lines: list[str]) -> list[str]:
    """Return a docstring with its code spans as reStructuredText's, and nothing else read as markup.

    Examples (`>>>` up to the next empty line) stay as they are. A code span may go over a line's end.

    Example:
        >>> as_rst(["`x` is a*b."])
        ['``x`` is a\\\\*b.']
    """
    text = "\n".join(lines)
    paragraphs = re.split(r"(\n\s*\n)", text)
    return "".join(
        piece if ">>>" in piece and INDENTED.match(_first_example(piece)) else _paragraph(piece)
        for piece in paragraphs
    ).split("\n")


def _first_example(piece: str) -> str:
    return next(line for line in piece.splitlines() if ">>>" in line)


def _paragraph(text: str) -> str:
    """The text between code spans is escaped; a code span gets double backticks."""
    out, end = [], 0
    for match in SPAN.finditer(text):
        out.append(MARKUP.sub(r"\\\g<0>", text[end : match.start()]))
        code = re.sub(r"\s*\n\s*", " ", match[2])
        # a space behind it, so that "`x`s" is read as code too
        after = text[match.end() : match.end() + 1]
        out.append(f"``{code}``" + ("\\ " if after.isalnum() else ""))
        # keep the number of lines: messages of Sphinx name them
        end = match.end()
    out.append(MARKUP.sub(r"\\\g<0>", text[end:]))
    return "".join(out)


def fields_of(settings: Any) -> list[str]:
    """Return the fields of a pydantic model as reStructuredText: name, type, default, description."""
    lines = [""]
    for name, field in settings.model_fields.items():
        default = (
            "required"
            if field.is_required()
            else f"default ``{field.get_default(call_default_factory=True)!r}``"
        )
        annotation = getattr(field.annotation, "__name__", None) or str(field.annotation)
        if "Union" in annotation or "|" in annotation or "[" in str(field.annotation):
            annotation = str(field.annotation)
        annotation = annotation.replace("typing.", "").replace("weft.", "")
        description = " ".join(_paragraph(field.description or "").split())
        lines.append(f":param {name}: {description} ({default})")
        if len(annotation) < 60:
            lines.append(f":type {name}: {annotation}")
    return [*lines, ""]


def process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Change a docstring in place, before napoleon reads its sections (Args, Returns, Example)."""
    lines[:] = as_rst(lines)
    if what == "class" and inspect.isclass(thing) and hasattr(thing, "model_fields"):
        lines.extend(fields_of(thing))


def dashes(app: Any, doctree: Any, name: str) -> None:
    """Write the dash behind a parameter's name as one; Sphinx writes two hyphens."""
    from docutils import nodes

    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))
