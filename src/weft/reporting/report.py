"""The page of runs and comparisons: the function behind `weft report` and `weft.report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from weft.errors import WeftError, words
from weft.reporting.comparison import comparison_sections
from weft.reporting.comparison_data import ComparisonData, has_tables, is_comparison, read_comparison
from weft.reporting.page import Section, page
from weft.reporting.run import run_sections
from weft.reporting.run_data import RunData, is_run, read_run
from weft.reporting.runs_together import together_section
from weft.utils.files import write_output
from weft.utils.version import __version__

FILE = "report.html"
"""The page's name in the folder that it is about."""

MOST = 20
"""How many runs of a folder make a page: more than these are slow to open."""

EXPECTED = (
    "expected a folder as made by weft train RUN.yaml --out FOLDER, or by weft compare GRID.yaml --out FOLDER"
)

Source = RunData | ComparisonData


def report(folders: Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Write the page of runs and comparisons.

    Example:
        >>> weft.report(["runs/first"])
        PosixPath('runs/first/report.html')

    Args:
        folders: folders of runs (`weft train --out`) and of comparisons (`weft compare --out`), or a folder
            that holds some of them.
        out: the file; by default `report.html` in the folder, if there is one.
    """
    paths = [Path(folder) for folder in folders]
    target = place_of(paths, None if out is None else Path(out))
    sources = [read_source(inside) for path in paths for inside in inside_of(path)]
    write_output(target, report_html(sources))
    return target


def inside_of(folder: Path) -> list[Path]:
    """The folder itself, or the runs and comparisons directly inside a folder that is neither.

    Args:
        folder: a folder of a run or of a comparison, or one that holds some. A comparison of several grids
            has a folder for the tables of each.
    """
    if is_run(folder) or not folder.is_dir():
        return [folder]
    of_grids = is_comparison(folder)
    inside = sorted(
        path
        for path in folder.iterdir()
        if has_tables(path) or (not of_grids and (is_run(path) or is_comparison(path)))
    )
    if len(inside) > MOST:
        some = " ".join(map(str, inside[:2]))
        raise WeftError(
            f"{folder} holds {len(inside)} runs and comparisons; a page shows at most {MOST} of a folder. "
            f"Name those that you need: weft report {some} … --out {folder / FILE}"
        )
    return [*([folder] if has_tables(folder) else []), *inside] or [folder]


def place_of(folders: Sequence[Path], out: Path | None) -> Path:
    """The file of the page."""
    option = words("--out", "out")
    if not folders:
        raise WeftError("expected the folder of a run or of a comparison; found none")
    if out is None and len(folders) > 1:
        raise WeftError(f"{len(folders)} folders make one page; name its file: {option} report.html")
    target = folders[0] / FILE if out is None else out
    if target.is_dir():
        raise WeftError(f"{option} {target}: this is a folder; expected the name of a file")
    if not target.parent.is_dir() and out is not None:
        raise WeftError(
            f"{option} {target}: there is no folder {target.parent}; create it first: mkdir -p "
            f"{target.parent}"
        )
    return target


def read_source(folder: Path) -> Source:
    """Read the folder of a run or of a comparison."""
    if is_run(folder):
        return read_run(folder)
    if is_comparison(folder):
        return read_comparison(folder)
    if not folder.exists():
        raise WeftError(f"there is no folder {folder}; {EXPECTED}")
    if folder.is_file():
        raise WeftError(f"{folder} is a file; {EXPECTED}")
    raise WeftError(f"{folder} holds neither a run nor a comparison; {EXPECTED}")


def report_html(sources: Sequence[Source], made_by: str | None = None, title: str = "") -> str:
    """The page of runs and comparisons, as a text.

    Args:
        sources: at least one.
        made_by: the command that writes the page again; by default `weft report` with the folders.
        title: its title; "": that of the source, or the names of several.
    """
    sections: list[Section] = []
    several = len(sources) > 1
    runs = [source for source in sources if isinstance(source, RunData)]
    if len(runs) > 1:
        sections.append(together_section(runs))
    for place, source in enumerate(sources):
        prefix = f"p{place}-" if several else ""
        heading = f"{source.name}: " if several else ""
        if isinstance(source, RunData):
            own, chapter = run_sections(source, prefix, heading), f"Run {source.name}"
        else:
            own, chapter = comparison_sections(source, prefix, heading), f"{heading}{source.title}"
        if several:
            chapter += f" ({place + 1})" if any(part.chapter == chapter for part in sections) else ""
            own = [replace(part, chapter=chapter, name=part.title.removeprefix(heading)) for part in own]
        sections += own
    if made_by is None:
        folders = " ".join(str(source.folder) for source in sources)
        made_by = f"weft {__version__}: weft report {folders}"
    return page(title or _title(sources), _about(sources), sections, made_by)


def _title(sources: Sequence[Source]) -> str:
    first = sources[0]
    if len(sources) > 1:
        return f"{len(sources)} reports: {', '.join(source.name for source in sources[:4])}"
    return first.title if isinstance(first, ComparisonData) else f"Run {first.name}"


def _about(sources: Sequence[Source]) -> list[str]:
    if len(sources) > 1:
        return ["Runs and comparisons on one page."]
    source = sources[0]
    if isinstance(source, RunData):
        return [f"{len(source.tasks)} tasks: {', '.join(source.tasks)}"]
    seeds = [len(facts["seeds"]) for facts in source.variants.values()]
    most = max(seeds, default=0)
    return [
        f"{len(source.names)} variants, {len(source.tasks)} tasks, {sum(seeds)} runs, at most {most} seeds "
        "per variant"
    ]
