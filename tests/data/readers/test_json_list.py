"""json files that hold a list of objects."""

from __future__ import annotations

import json

import pytest

from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows
from weft.data.readers.source import Source


def written(folder, text, encoding="utf-8"):
    file = folder / "rows.json"
    file.write_bytes(text.encode(encoding))
    return Source(file, format="json")


def test_keys_are_columns(tmp_path):
    table = read_rows(
        written(tmp_path, json.dumps([{"text": "a", "label": 1}, {"text": "b"}])), ["text", "label"]
    )
    assert table.columns == {"text": ["a", "b"], "label": [1, None]}
    assert list(table.row) == [1, 2]


def test_an_encoding_can_be_named(tmp_path):
    file = written(tmp_path, '[{"text": "schön"}]', "latin-1").path
    table = read_rows(Source(file, format="json", options={"encoding": "latin-1"}), ["text"])
    assert table.columns == {"text": ["schön"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[]", "the list is empty"),
        ('{"text": 1}', "expected a list of objects"),
        ("[1]", "row 1: found 1; expected a list of objects"),
        ('[{"text": 1}', "line 1: not JSON"),
        ('[{"text": 1}]', "there is no such column; known: text; no object has this key"),
    ],
)
def test_mistakes(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_rows(written(tmp_path, text), ["label"])
