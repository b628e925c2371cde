"""Measures: numbers of a finished run besides its scores, for `measures: [similarity]` of a grid.

`registry` lists them and takes them of a run; `of_log` has those that the log of a run tells, `of_weights`
those that need its weights or its data.
"""

from weft.experiments.measures.of_log import Value
from weft.experiments.measures.registry import (
    ALWAYS,
    EXACT,
    FAILED,
    MEASURED,
    MEASURES,
    OF_LOG,
    VALUES,
    Form,
    applies,
    form_of,
    measure_run,
    measured,
    not_measured,
    on_pages,
)

__all__ = [
    "ALWAYS",
    "EXACT",
    "FAILED",
    "MEASURED",
    "MEASURES",
    "OF_LOG",
    "VALUES",
    "Form",
    "Value",
    "applies",
    "form_of",
    "measure_run",
    "measured",
    "not_measured",
    "on_pages",
]
