"""Duplicates are found by hashes, and compared exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.data.splits import duplicates as module
from weft.data.splits.duplicates import duplicates
from weft.data.splits.split import Split

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f g"]), min_size=1, max_size=12)


def split_of(name: str, texts: list[str]) -> Split:
    task = weft.Task("t", labels=("no", "yes"))
    rows = [(text,) for text in texts]
    return Split(task, name, f"{name}.csv", rows, [0] * len(rows), np.arange(1, len(rows) + 1))


@pytest.mark.parametrize("collide", [False, True])
@given(train=TEXTS, validation=TEXTS)
def test_equal_texts_are_counted_also_if_hashes_collide(collide, train, validation):
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            patch.setattr(module, "_hashes", lambda split: np.zeros(len(split), np.int64))
        found = list(duplicates({"train": split_of("train", train), "validation": split_of("v", validation)}))
    inside = sum(text in train[:i] for i, text in enumerate(train))
    across = sum(text in train for text in validation)
    assert [(f.severity, f.value) for f in found] == [
        (severity, count) for severity, count in (("note", inside), ("warning", across)) if count
    ]
    if across:
        first = next(j for j, text in enumerate(validation) if text in train)
        pair = f"row {train.index(validation[first]) + 1} and v.csv row {first + 1}"
        assert pair in found[-1].message
