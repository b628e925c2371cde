"""JSON that every reader accepts, whatever the numbers are."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.utils.strict_json import finite_or_null, strict_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def refuse(name):
    pytest.fail(f"{name} is no JSON")


def same(value, read):
    if isinstance(value, float) and not math.isfinite(value):
        return read is None
    if isinstance(value, list):
        return len(value) == len(read) and all(map(same, value, read))
    if isinstance(value, dict):
        return value.keys() == read.keys() and all(same(value[key], read[key]) for key in value)
    return value == read


@given(VALUES)
def test_numbers_that_are_none_are_null_and_all_else_stays(value):
    text = strict_json(value)
    assert "\n" not in text
    read = json.loads(text, parse_constant=refuse)
    assert same(value, read)
    assert finite_or_null(read) == read
