"""Options of files: rows without a value, and separated labels."""

from __future__ import annotations

import pytest

from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows
from weft.data.readers.source import Source
from weft.errors import WeftError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,text,label\n1,one,a;b\n2,,a\n3, ,b\n4,four,\n")
    return path


def test_filled_leaves_out_rows_without_a_value(file):
    table = read_rows(Source(file, options={"filled": ["text"]}), ["id", "label"])
    assert table.columns == {"id": ["1", "4"], "label": ["a;b", ""]}
    assert list(table.row) == [2, 5]  # lines of the file


def test_filled_names_the_column_if_no_row_is_left(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": null, "label": 1}\n{"text": "", "label": 1}\n')
    with pytest.raises(DataError, match="none of the 2 rows passes the filter: a value in text"):
        read_rows(Source(path, options={"filled": ["text"]}), ["label"])


def test_separated_labels_become_lists(file):
    table = read_rows(Source(file, columns={"tags": "label"}, options={"separated": {"tags": ";"}}), ["tags"])
    assert table.columns == {"tags": [["a", "b"], ["a"], ["b"], []]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filled": "text"}, "filled: expected a list of columns"),
        ({"separated": {"label": ""}}, "separated: label: expected a text such as ';'"),
        ({"separated": ["label"]}, "separated: expected columns with their values"),
    ],
)
def test_mistakes(file, options, message):
    with pytest.raises(WeftError, match=message):
        Source(file, options=options)
