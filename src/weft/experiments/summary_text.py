"""The words that begin a page: what was found, as a text whose numbers are expressions.

    PALs gain {{ average(pals) - average(shared) }} points over sharing everything.

An expression is that of a claim (`weft.experiments.claims.language`); its value is the mean over seeds. So a
number in the text cannot differ from the tables below it, and names of variants are checked before anything
is trained. `{{ EXPRESSION : .2f }}` or `{{ EXPRESSION : +.1f }}` sets the digits and the sign.

On a page of several grids an expression is about the first one; `{{ pals-curves: EXPRESSION }}` is about the
grid of that name. A first line `# TITLE` is the title of the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError, did_you_mean
from weft.experiments.claims.checks import check_claim
from weft.experiments.claims.data import ClaimData
from weft.experiments.claims.language import Node
from weft.experiments.claims.values import per_seed
from weft.experiments.text_table import NONE
from weft.utils.safe_yaml import read_text

if TYPE_CHECKING:
    from weft.experiments.grid import Grid

DIGITS = ".1f"
_NUMBER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_FORM = re.compile(r"(.*):\s*(\+?\.\df)\s*", re.DOTALL)
_GRID = re.compile(r"\s*([\w.-]+)\s*:(.*)", re.DOTALL)
_TITLE = re.compile(r"#\s+(.+?)\s*(?:\n|$)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Number:
    """An expression in a text.

    Attributes:
        grid: the name of the grid that it is about.
        node: the expression.
        digits: how its value is shown, such as `.1f`.
    """

    grid: str
    node: Node
    digits: str


@dataclass(frozen=True)
class SummaryText:
    """A text that has been read and checked.

    Attributes:
        parts: the words and the expressions in turns, words first and last.
        title: the title of the page; "": that of the grid.
    """

    parts: tuple[str | Number, ...]
    title: str = ""

    def filled(self, data: Mapping[str, ClaimData]) -> str:
        """The text with its numbers; a dash where the results do not have what an expression needs.

        Args:
            data: the results of each grid by its name.
        """
        filled = (part if isinstance(part, str) else _shown(part, data[part.grid]) for part in self.parts)
        return "".join(filled).strip()


def read_summary(path: Path, grids: Sequence[Grid]) -> SummaryText:
    """Read a text and check its expressions.

    Args:
        path: the file, UTF-8.
        grids: the grids, which have the names of variants and measures.
    """
    text = read_text(path)
    title = _TITLE.fullmatch(text)
    parts: list[str | Number] = []
    end = 0 if title is None else title.start(2)
    for match in _NUMBER.finditer(text, end):
        line = text.count("\n", 0, match.start()) + 1
        parts += [text[end : match.start()], _parsed(match[1], f"{path}, line {line}", grids)]
        end = match.end()
    for number, line in enumerate(_NUMBER.sub(lambda m: "\n" * m[0].count("\n"), text).splitlines(), 1):
        if "{{" in line or "}}" in line:
            raise WeftError(f"{path}, line {number}: {{{{ and }}}} must be in pairs; found {line.strip()!r}")
    return SummaryText((*parts, text[end:]), "" if title is None else title[1])


def _parsed(text: str, where: str, grids: Sequence[Grid]) -> Number:
    from weft.experiments.cells import variants_of

    form = _FORM.fullmatch(text)
    expression, digits = (form[1], form[2]) if form else (text, DIGITS)
    grid = grids[0]
    if named := _GRID.fullmatch(expression):
        names = [grid.name for grid in grids]
        if named[1] not in names:
            raise WeftError(f"{where}: there is no grid {named[1]!r}; {did_you_mean(named[1], names)}")
        grid, expression = grids[names.index(named[1])], named[2]
    variants = [variant.name for variant in variants_of(grid)]
    try:
        # a claim has a comparison; that of a number is not looked at
        node = check_claim(f"{expression.strip()} >= 0", variants, None, grid.measures).left
    except WeftError as wrong:
        raise WeftError(f"{where}: {wrong}") from None
    return Number(grid.name, node, digits)


def _shown(number: Number, data: ClaimData) -> str:
    try:
        values, _ = per_seed(number.node, data)
    except WeftError:  # a task that no run has, for example
        return NONE
    return f"{fsum(values.values()) / len(values):{number.digits}}" if values else NONE
