"""Escapes of JSON in YAML: a pair of halves is one character, one half alone is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.utils.safe_yaml import YamlError, parse_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("🙂𝔘"), max_size=20)


@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=3), max_size=3))
def test_what_json_escapes_is_read_as_json_reads_it(value):
    assert parse_yaml(json.dumps(value)) == value


@pytest.mark.parametrize("text", ['a: "\\ud83d"', 'a: "\\ude00 \\ud83d"', '"\\ud800": 1'])
def test_half_of_a_pair_is_refused_with_its_line(text):
    with pytest.raises(YamlError, match="half of a surrogate pair") as error:
        parse_yaml(f"# first\n{text}")
    assert error.value.line == 2
