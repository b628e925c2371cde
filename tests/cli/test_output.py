"""Tables on screens of any width: nothing is cut off."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from weft.cli import output
from weft.cli.output import columns_that_fit, print_table

COLUMNS = ["variant", *(f"task {number}" for number in range(9))]
ROWS = [["proportional", *(f"{number}.25 ± 0.5" for number in range(9))], ["uniform", *"abcdefghi"]]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 120))
def test_every_column_stands_once_and_parts_fit(widths, width):
    parts = columns_that_fit(widths, width)
    assert all(part[0] == 0 for part in parts)
    assert [column for part in parts for column in part[1:]] == list(range(1, len(widths)))
    for part in parts:
        used = sum(widths[column] for column in part) + 2 * (len(part) - 1)
        assert used <= width or len(part) <= 2


@given(st.integers(40, 200))
def test_a_terminal_of_any_width_shows_every_cell(width):
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
    real, output.console = output.console, lambda: screen
    try:
        print_table("", COLUMNS, ROWS)
    finally:
        output.console = real
    shown = screen.file.getvalue()
    assert all(cell in shown for row in [COLUMNS, *ROWS] for cell in row)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= max(width, len("proportional") + 2 + len("0.25 ± 0.5"))


def test_a_pipe_gets_one_table(capsys):
    print_table("title", COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "title"
    assert len(lines) == 1 + 1 + len(ROWS)
    assert all(cell in lines[2] for cell in ROWS[0])
