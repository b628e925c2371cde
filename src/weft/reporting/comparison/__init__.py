"""The sections of a comparison's page."""

from __future__ import annotations

from collections.abc import Callable

from weft.reporting.comparison.again import again_section
from weft.reporting.comparison.claims import claims_section
from weft.reporting.comparison.contrasts import contrasts_section
from weft.reporting.comparison.cost import cost_section
from weft.reporting.comparison.covariance import covariance_section
from weft.reporting.comparison.curves import curves_section, speed_section
from weft.reporting.comparison.limits import limits_section
from weft.reporting.comparison.over_time import entropy_section, sampling_section
from weft.reporting.comparison.scores import published_section, scores_section
from weft.reporting.comparison.settings import runs_section, settings_section
from weft.reporting.comparison.similarity import similarity_section
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section, absent

Maker = Callable[[ComparisonData, str], Section | None]

SECTIONS: tuple[tuple[str, str, Maker], ...] = (
    ("limits", "What must not be concluded", limits_section),
    ("scores", "Scores", scores_section),
    ("published", "Published figures", published_section),
    ("contrasts", "Differences", contrasts_section),
    ("claims", "Claims", claims_section),
    ("curves", "Learning curves", curves_section),
    ("speed", "Steps to a score", speed_section),
    ("sampling", "Sampling over time", sampling_section),
    ("entropy", "Uncertainty over time", entropy_section),
    ("cost", "Score against cost", cost_section),
    ("similarity", "Similarity of tasks", similarity_section),
    ("covariance", "Covariance and scores", covariance_section),
    ("settings", "Chosen settings", settings_section),
    ("again", "Trained again", again_section),
    ("runs", "Runs", runs_section),
)
"""The key, the title and the function of each section, in the order of the page."""

NOT_AS_WRITTEN = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What damaged numbers of tables or records raise in a section."""


def comparison_sections(data: ComparisonData, prefix: str = "", heading: str = "") -> list[Section]:
    """All sections of a comparison; those that do not apply are left out.

    Args:
        data: the comparison.
        prefix: what keys begin with, if a page has several sources.
        heading: what titles begin with, if a page has several sources.
    """
    sections = []
    for key, title, make in SECTIONS:
        try:
            section = make(data, f"{prefix}{key}")
        except NOT_AS_WRITTEN as wrong:
            why = f"the files in {data.folder} are not in the form that weft compare writes ({wrong!r})"
            section = Section(f"{prefix}{key}", title, absent(title, why))
        if section is not None:
            sections.append(Section(section.key, f"{heading}{section.title}", section.body))
    return sections
