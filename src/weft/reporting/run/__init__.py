"""The sections of a run's page."""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import WeftError
from weft.reporting.page import Section, absent
from weft.reporting.run.conflict import conflict_section, similarity_section
from weft.reporting.run.curves import curves_section, losses_section
from weft.reporting.run.errors import errors_section
from weft.reporting.run.facts import environment_section, parameters_section, run_file_section
from weft.reporting.run.sampling import composition_section, entropy_section
from weft.reporting.run.summary import summary_section
from weft.reporting.run_data import RunData

Maker = Callable[[RunData, str], Section]

SECTIONS: tuple[tuple[str, str, Maker], ...] = (
    ("scores", "Scores", summary_section),
    ("curves", "Learning curves", curves_section),
    ("losses", "Training losses", losses_section),
    ("sampling", "Sampling over time", composition_section),
    ("entropy", "Uncertainty over time", entropy_section),
    ("conflict", "Gradient conflicts", conflict_section),
    ("similarity", "Similarity of tasks", similarity_section),
    ("errors", "Errors", errors_section),
    ("parameters", "Parameters", parameters_section),
    ("environment", "Environment", environment_section),
    ("run-file", "Run file", run_file_section),
)
"""The key, the title and the function of each section, in the order of the page."""

NOT_AS_WRITTEN = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What damaged numbers of a log raise in a section."""


def run_sections(run: RunData, prefix: str = "", heading: str = "") -> list[Section]:
    """All sections of a run. One whose numbers are damaged becomes a line that says so.

    Args:
        run: the run.
        prefix: what keys begin with, if a page has several runs.
        heading: what titles begin with, if a page has several runs.
    """
    sections = []
    for key, title, make in SECTIONS:
        try:
            section = make(run, f"{prefix}{key}")
        except WeftError as wrong:  # such as an error report that is no JSON
            section = Section(f"{prefix}{key}", title, absent(title, str(wrong)))
        except NOT_AS_WRITTEN as wrong:
            why = f"the files in {run.folder} are not in the form that a run writes ({wrong!r})"
            section = Section(f"{prefix}{key}", title, absent(title, why))
        sections.append(Section(section.key, f"{heading}{section.title}", section.body))
    return sections
