"""A model of every kind, and requests for it, for tests of captured passes."""

from __future__ import annotations

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.tiny import scramble
from weft.inference.captured import USES

ONE_ROW = ("classify", "regress", "two", "multilabel")


def model_of(folder, names=NAMES, method="lora"):
    return scramble(weft.Model(folder, [task_of_kind(name) for name in names], method, max_length=24)).eval()


def requests_of(names, count=3):
    return [(name, row) for i in range(count) for name in names for row in rows_of_kind(name, 1, i)]


def predicted_until_captured(model, requests, **options):
    """Make a call so often that its shapes are captured; returns the last answers."""
    for _ in range(USES):
        last = model.predict(requests, **options)
    return last
