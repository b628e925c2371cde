"""Write the sources that Sphinx reads: every page with links that fit the site, and the generated pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from weft_site.api import reference_pages
from weft_site.commands import command_page
from weft_site.links import moved_links
from weft_site.notebooks import notebook_page, read_notebook

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

RENAMED = {
    "README.md": "index.md",
    "docs/README.md": "all-pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "docs/results/sampling.html": "files/sampling.html",  # beside it, sampling.md becomes sampling.html
}
"""Files whose place on the site does not follow from their path."""

GENERATED = {"api": "api/index.md", "commands": "commands.md"}
"""Entries of the table of contents that are no file of the project, and their pages."""


def contents() -> dict[str, Any]:
    """Return contents.yaml: `pages` by heading, and `names` by section."""
    read: dict[str, Any] = yaml.safe_load((HERE / "contents.yaml").read_text(encoding="utf-8"))
    return read


def site_path(file: str) -> str:
    """Return where a file of the project is on the site: "docs/growing.md" is "growing.md"."""
    if file in RENAMED:
        return RENAMED[file]
    if file in GENERATED:
        return GENERATED[file]
    if file.startswith("examples/notebooks/"):
        return f"notebooks/{PurePosixPath(file).with_suffix('.md').name}"
    return file.removeprefix("docs/") if file.startswith("docs/") else f"files/{file}"


@dataclass
class Stage:
    """Writes the sources of the site into a folder.

    Args:
        folder: the folder; what it holds is replaced.
        root: the project.
    """

    folder: Path
    root: Path = ROOT
    files: set[str] = field(default_factory=set)

    def write(self) -> None:
        """Write all pages, and copy the pictures and files that they link to."""
        shutil.rmtree(self.folder, ignore_errors=True)
        entries = contents()
        listed = [entry for section in entries["pages"].values() for entry in section]
        for entry in ["README.md", *listed]:
            if entry not in GENERATED:
                self.page(entry)
        for place, text in [*reference_pages(entries["names"]), ("commands.md", command_page())]:
            self.put(place, text)
        index = self.folder / "index.md"
        self.put("index.md", index.read_text(encoding="utf-8") + "".join(toctrees(entries["pages"])))
        for file in sorted(self.files):
            self.copy(file)

    def page(self, entry: str) -> None:
        """Write one page of the project."""
        file, place = self.root / entry, site_path(entry)
        if file.suffix == ".ipynb":
            text, pictures = notebook_page(read_notebook(file), file.stem)
            for name, drawing in pictures.items():
                self.put(f"notebooks/{name}", drawing)
            text = moved_links(text, entry, place, lambda target: self.find(target, set(pictures)))
        else:
            text = moved_links(file.read_text(encoding="utf-8"), entry, place, self.find)
        self.put(place, text)

    def find(self, file: str, drawn: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
        """Return the place of a linked file on the site, and remember to copy what is no page."""
        if PurePosixPath(file).name in drawn:
            return f"notebooks/{PurePosixPath(file).name}"
        if not (self.root / file).is_file():
            return None
        if not file.endswith((".md", ".ipynb")):
            self.files.add(file)
        return site_path(file)

    def copy(self, file: str) -> None:
        """Copy a file that a page shows or offers."""
        to = self.folder / site_path(file)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.root / file, to)

    def put(self, place: str, text: str) -> None:
        """Write one file of the site's sources."""
        to = self.folder / place
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")


def toctrees(pages: dict[str, list[str]]) -> Iterator[str]:
    """Yield one hidden table of contents per heading, for the page `index`."""
    for heading, entries in pages.items():
        names = [str(PurePosixPath(site_path(entry)).with_suffix("")) for entry in entries]
        yield "\n\n```{toctree}\n:hidden:\n" + f":caption: {heading}\n\n" + "\n".join(names) + "\n```\n"
