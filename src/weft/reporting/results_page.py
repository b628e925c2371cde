"""The results of a comparison for readers: a Markdown page, and beside it the web page that it links to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.errors import WeftError
from weft.experiments.call import Call
from weft.experiments.compare import folder_of
from weft.experiments.page import page
from weft.experiments.results import Results
from weft.reporting.report import read_source, report_html
from weft.utils.files import write_output

SUFFIX = ".html"


def web_page_of(file: Path) -> Path:
    """The web page beside a Markdown page.

    Example:
        >>> web_page_of(Path("docs/results/sampling.md")).name
        'sampling.html'
    """
    if file.suffix.lower() in (SUFFIX, ".htm"):
        named = file.with_suffix(".md")
        raise WeftError(
            f"--page {file}: this is the name of a web page; expected that of a Markdown page, beside which "
            f"the web page is written: --page {named}"
        )
    return file.with_suffix(SUFFIX)


def write_results_page(
    file: Path, results: Sequence[Results], call: Call, folder: Path, words: str = "", title: str = ""
) -> list[Path]:
    """Write both pages, and return their names. Without results there is no web page.

    Args:
        file: the Markdown page.
        results: the results of one grid or several.
        call: the command; both pages name it.
        folder: the comparison's folder, with its records and tables.
        words: what begins the Markdown page.
        title: the title of both pages; "": that of the grids.
    """
    web = web_page_of(file)
    finished = [each for each in results if each.statistics]
    if not finished:
        write_output(file, page(results, call, words=words, title=title))
        return [file]
    write_output(file, page(results, call, web.name, words, title))
    sources = [read_source(folder_of(each.grid, folder, len(results))) for each in finished]
    write_output(web, report_html(sources, made_by=call.with_again(results).lines()[-1], title=title))
    return [file, web]
