"""The commands that make a page: the one that trains its runs, and the one that needs their records alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.experiments.grid import RECIPE
from weft.experiments.results import Results


@dataclass(frozen=True)
class Call:
    """The command that a page names.

    Attributes:
        source: the grid or recipe.
        overrides: `key=value` settings.
        records: the file of packed records that the tables are made from; None: they are trained.
        page: the file of the page; None: it is in the comparison's folder.
        summary: the file with the words that begin the page; None: there are none.
        more: further grids or recipes.
        again: how many runs of each grid are trained once more.
    """

    source: str
    overrides: tuple[str, ...] = ()
    records: str | None = None
    page: str | None = None
    summary: str | None = None
    more: tuple[str, ...] = ()
    again: int = 0

    def with_again(self, results: Sequence[Results]) -> Call:
        """This call, which may only read records, with as many runs trained once more as the results have."""
        return replace(self, again=max([self.again, *(len(each.again) for each in results)]))

    def lines(self) -> list[str]:
        """The commands: first the one that trains, then the one that makes the page from records alone."""
        settings = [_without_folder(override) for override in self.overrides]
        sources = [_name(source) for source in (self.source, *self.more)]
        recipe = any(source.startswith(RECIPE) for source in sources)
        if recipe and not any(override.startswith("tasks.root=") for override in settings):
            settings.append("tasks.root=DATA")
        named = sources[0] if not self.more or self.records is None else self.records
        folder = (
            f"runs/{Path(named.removeprefix(RECIPE)).name.removesuffix('.yaml').removesuffix('.records')}"
        )
        to = f" --again {self.again}" if self.again else ""
        to += "" if self.records is None else f" --pack {_name(self.records)}"
        lines = [" ".join(["weft compare", *sources, *settings, f"--out {folder}{to}"])]
        if self.records is not None:
            kept = [text for text in settings if not text.startswith(("tasks.root=", "encoder="))]
            to = "" if self.summary is None else f" --summary {_name(self.summary)}"
            to += "" if self.page is None else f" --page {_name(self.page)}"
            lines.append(" ".join(["weft compare", *sources, *kept, f"--records {_name(self.records)}{to}"]))
        return lines


def _without_folder(override: str) -> str:
    """A setting without the folders of this machine."""
    key, _, value = override.partition("=")
    if key.endswith(".root"):
        return f"{key}=DATA"
    return f"{key}={_name(value)}" if value.startswith(("/", "~")) else override


def _name(path: str) -> str:
    """A file as a page names it: a path of this machine by its last part."""
    return path.rstrip("/").rpartition("/")[2] if path.startswith(("/", "~")) else path
