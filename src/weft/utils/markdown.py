"""Text of any origin inside Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.utils.terminal import escaped

_SPECIAL = '\\`*_{}[]()#+!|<>~&$@"'


def shown(value: object) -> str:
    """Return a text of any origin for a sentence or a cell of a table.

    Example:
        >>> shown("a|b")
        'a&#124;b'
    """
    text = " ".join(escaped(str(value)).split())
    return "".join(f"&#{ord(c)};" if c in _SPECIAL else c for c in text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return a table; its cells are Markdown.

    Example:
        >>> print(table(["task", "size"], [["rte", "2"]], right=[1]))
        | task | size |
        | --- | ---: |
        | rte | 2 |

    Args:
        columns: the titles.
        rows: the cells of each row.
        right: the numbers of the columns that are aligned to the right.
    """
    line = ["---:" if number in right else "---" for number in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, line, *rows))
