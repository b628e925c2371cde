"""The claims of a grid with their verdicts."""

from __future__ import annotations

from weft.experiments.claims.evaluate import VERDICTS
from weft.reporting.comparison.contrasts import CLASSES
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section
from weft.reporting.tables import Cell, Table
from weft.utils.markup import join, tag


def claims_section(data: ComparisonData, key: str) -> Section | None:
    """One row per claim: the verdict, the sentence, its test, and why."""
    claims = data.results["claims"]
    if not claims:
        return None
    verdicts = [str(claim["verdict"]) for claim in claims]
    summary = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    rows = [
        [
            claim["text"],
            Cell(claim["verdict"], class_=CLASSES.get(str(claim["verdict"]), "unsure")),
            claim["why"],
            Cell(tag("code", claim["test"])),
        ]
        for claim in claims
    ]
    table = Table("Claims", ("claim", "verdict", "why", "test"), rows, texts=(1,), long=(0, 2, 3))
    return Section(key, "Claims", join([tag("p", f"{summary}."), table.html()]))
