"""Tables of a page: with a caption, scopes for screen readers, and columns that the script can sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.utils.markup import Html, tag

NONE = "–"
BRIEF = 24
"""Titles of rows of up to this many letters have one line."""


@dataclass(frozen=True)
class Cell:
    """A cell that is more than a text.

    Attributes:
        text: what is shown: a text, or markup.
        sort: the number by which its column is sorted; None: by what is shown.
        class_: a class of the style sheet, such as `best`.
    """

    text: object
    sort: float | None = None
    class_: str | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: what it shows.
        columns: the titles of its columns.
        rows: its rows; the first cell of each is the row's title.
        texts: the columns that hold texts and not numbers, by place; the first one always does.
        long: those of them that hold sentences, which may have several lines.
        sortable: whether a reader may sort it.
        notes: sentences below it.
        cards: whether a narrow screen shows each row as a card; by default if a column has sentences.
            Columns of numbers that are to be compared stay a table, which is scrolled sideways.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    texts: Sequence[int] = ()
    long: Sequence[int] = ()
    sortable: bool = True
    notes: Sequence[str] = field(default_factory=tuple)
    cards: bool | None = None

    def html(self, hide_caption: bool = False) -> Html:
        """The table in a box that scrolls sideways, which the keyboard can reach.

        Args:
            hide_caption: whether the caption is for screen readers alone.
        """
        cards = self._cards
        head = tag(
            "tr",
            *(
                tag("th", title, scope="col", class_=self._class(i), role=_role(cards, "columnheader"))
                for i, title in enumerate(self.columns)
            ),
            role=_role(cards, "row"),
        )
        body = [
            tag("tr", *(self._cell(i, cell) for i, cell in enumerate(row)), role=_role(cards, "row"))
            for row in self.rows
        ]
        classes = (
            "sortable" if self.sortable and len(self.rows) > 1 else None,
            "stack" if cards else None,
            "brief" if all(len(str(_text(row[0]))) <= BRIEF for row in self.rows) else None,
        )
        table = tag(
            "table",
            tag("caption", self.caption, class_="unseen"),
            tag("thead", head, role=_role(cards, "rowgroup")),
            tag("tbody", *body, role=_role(cards, "rowgroup")),
            class_=" ".join(filter(None, classes)) or None,
            role=_role(cards, "table"),
        )
        # a caption inside would be as wide as the table, and scroll away with it
        title = None if hide_caption else tag("p", self.caption, class_="caption", aria_hidden="true")
        box = tag("div", table, class_="scroll", tabindex=0, role="group", aria_label=self.caption)
        return tag("div", title, box, *(tag("p", note, class_="note") for note in self.notes), class_="table")

    @property
    def _cards(self) -> bool:
        return bool(self.long) if self.cards is None else self.cards

    def _cell(self, place: int, cell: object) -> Html:
        value = cell if isinstance(cell, Cell) else Cell(cell)
        name, scope = ("th", "row") if place == 0 else ("td", None)
        classes = " ".join(filter(None, (self._class(place), value.class_))) or None
        number = None if value.sort is None else f"{value.sort:.10g}"
        # as a card, a cell stands beside the title of its column
        label = self.columns[place] if self._cards and place else None
        role = _role(self._cards, "cell" if place else "rowheader")
        return tag(name, value.text, scope=scope, class_=classes, data_v=number, data_label=label, role=role)

    def _class(self, place: int) -> str | None:
        if place in self.long:
            return "text long"
        return "text" if place == 0 or place in self.texts else None


def _text(cell: object) -> object:
    return cell.text if isinstance(cell, Cell) else cell


def _role(cards: bool, role: str) -> str | None:
    """The role of an element of a table; written out, since some browsers take it from the layout."""
    return role if cards else None


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage without the sign."""
    return NONE if value is None else f"{100 * value:.{digits}f}"
