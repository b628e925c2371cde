"""The written pages: their code blocks, code spans, links and command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]
"""Every page of the documentation."""

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMENT = re.compile(r"\s+#\s.*$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: the file it stands in.
        line: the line of its opening fence.
        language: what stands behind the opening fence, such as `yaml`; empty for none.
        text: what it holds.
    """

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        """Where it is, as a test's name."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str, pages: list[Path] | None = None) -> list[Block]:
    """The fenced blocks of these languages, of all where none is named."""
    found = []
    for page in PAGES if pages is None else pages:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            content = "\n".join(row.removeprefix(match[1]) for row in match[3].splitlines()) + "\n"
            found.append(Block(page, line, match[2], content))
    return [block for block in found if not languages or block.language in languages]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """What stands in single backticks."""
    return SPAN.findall(prose(page))


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures."""
    return LINK.findall(SPAN.sub("", prose(page)))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Where a command line of this program stands, and its words after the program's name.

    Lines of blocks without a language and of code spans count. Comments, `…` and the brackets around
    optional arguments are left out; of `A && B` each is a command.
    """
    for block in blocks("", "sh", "console", "bash"):
        for number, row in enumerate(block.text.splitlines(), block.line + 1):
            for call in COMMENT.sub("", row).removeprefix("$ ").split(" && "):
                yield from _words(f"{block.page.relative_to(ROOT)}:{number}", call, program)
    for page in PAGES:
        for span in spans(page):
            yield from _words(str(page.relative_to(ROOT)), span, program)


def _words(where: str, call: str, program: str) -> Iterator[tuple[str, list[str]]]:
    if not call.startswith(program + " "):
        return
    words = shlex.split(re.sub(r"[\[\]…](?![\w,])|(?<= )\[", "", call.removeprefix(program)))
    yield f"{where}: {call}", words
