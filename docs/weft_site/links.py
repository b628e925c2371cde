"""Links of a page: written for a code host, where they lead to files, and changed to fit the site."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

PIECE = re.compile(
    r"(?P<fence>^(?P<indent> *)(?P<marks>```+)[^\n]*\n.*?^(?P=indent)(?P=marks) *$)"
    r"|(?P<picture>!?)\[(?P<text>(?:`[^`\n]+`|\\.|[^\[\]`])*)\]\((?P<target>[^)\s]+)\)"
    r"|(?P<span>`+)[^`\n]+(?P=span)",
    re.DOTALL | re.MULTILINE,
)
"""A fenced block, a link or a code span. What looks like a link in code is none."""

OUTSIDE = re.compile(r"[a-z]+:")


def moved_links(text: str, page: str, place: str, find: Callable[[str], str | None]) -> str:
    """Return the text with every relative link changed to where its file is on the site.

    Args:
        text: a page in Markdown.
        page: the page's path in the project, such as "docs/growing.md".
        place: its path on the site, such as "growing.md".
        find: gives the path on the site for a file's path in the project; None if the site lacks it. The
            link is then replaced by its text.
    """

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None:
            return match[0]
        if OUTSIDE.match(target) or target.startswith("#"):
            return match[0]
        name, mark, anchor = target.partition("#")
        file = os.path.normpath(PurePosixPath(page).parent / name)
        found = find(file)
        if found is None:
            return match["text"]
        moved_to = os.path.relpath(found, PurePosixPath(place).parent)
        return f"{match['picture']}[{match['text']}]({Path(moved_to).as_posix()}{mark}{anchor})"

    return PIECE.sub(moved, text)
