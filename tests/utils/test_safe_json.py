"""JSON of any origin."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.utils.safe_json import DEPTH, is_deep, parse_json, read_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=30,
)


@given(VALUES)
def test_what_was_written_is_read(value):
    text = json.dumps(value)
    assert parse_json(text) == value
    assert parse_json(text.encode()) == value


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [DEPTH + 1, 500, 100_000])
def test_deep_nesting_is_a_value_error(opening, depth):
    closing = "]" if opening == "[" else "}"
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        parse_json(opening * depth + "1" + closing * depth)


def test_the_limit_of_depth_is_exact():
    deep = parse_json("[" * DEPTH + "]" * DEPTH)
    assert not is_deep(deep)
    assert is_deep([deep])
    assert len(parse_json(json.dumps([[]] * 1000))) == 1000  # many, and not deep


@pytest.mark.parametrize("text", ["", "{", "nul", "[1,]", "1" * 5000, b"\xff\xfe\x00", "\ud800"])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011  (the parser's own words)
        parse_json(text)


def test_files(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(WeftError, match=r"x\.json is missing; expected a thing"):
        read_json(path, "expected a thing")
    path.write_bytes(b"\x80")
    with pytest.raises(WeftError, match=r"x\.json is not JSON"):
        read_json(path, "")
    path.write_text("[1]")
    with pytest.raises(WeftError, match=r"x\.json: expected an object; found list"):
        read_json(path, "")
    path.write_text('{"a": 1}')
    assert read_json(path, "") == {"a": 1}
    with pytest.raises(WeftError, match=r"x\.json has 8 bytes; expected at most 7"):
        read_json(path, "", largest=7)
