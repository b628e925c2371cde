"""The words that begin a page: what was found, as a text whose numbers are expressions.

    PALs gain {{ average(pals) - average(shared) }} points over sharing everything.

An expression is that of a claim (`weft.experiments.claims.language`); its value is the mean over seeds. So a
number in the text cannot differ from the tables below it, and names of variants are checked before anything
is trained. `{{ EXPRESSION : .2f }}` or `{{ EXPRESSION : +.1f }}` sets the digits and the sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
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


@dataclass(frozen=True)
class SummaryText:
    """A text that has been read and checked.

    Attributes:
        parts: the words and the expressions in turns, words first and last; an expression comes with its
            digits.
    """

    parts: tuple[str | tuple[Node, str], ...]

    def filled(self, data: ClaimData) -> str:
        """The text with its numbers; a dash where the results do not have what an expression needs.

        Args:
            data: the results.
        """
        return "".join(part if isinstance(part, str) else _shown(*part, data) for part in self.parts).strip()


def read_summary(path: Path, grid: Grid) -> SummaryText:
    """Read a text and check its expressions.

    Args:
        path: the file, UTF-8.
        grid: the grid, which has the names of variants and measures.
    """
    from weft.experiments.cells import variants_of

    text = read_text(path)
    names = [variant.name for variant in variants_of(grid)]
    parts: list[str | tuple[Node, str]] = []
    end = 0
    for match in _NUMBER.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        parts += [text[end : match.start()], _parsed(match[1], f"{path}, line {line}", names, grid.measures)]
        end = match.end()
    return SummaryText((*parts, text[end:]))


def _parsed(text: str, where: str, variants: Sequence[str], measures: Sequence[str]) -> tuple[Node, str]:
    form = _FORM.fullmatch(text)
    expression, digits = (form[1], form[2]) if form else (text, DIGITS)
    try:
        # a claim has a comparison; that of a number is not looked at
        return check_claim(f"{expression.strip()} >= 0", variants, None, measures).left, digits
    except WeftError as wrong:
        raise WeftError(f"{where}: {wrong}") from None


def _shown(node: Node, digits: str, data: ClaimData) -> str:
    try:
        values, _ = per_seed(node, data)
    except WeftError:  # a task that no run has, for example
        return NONE
    return f"{fsum(values.values()) / len(values):{digits}}" if values else NONE
