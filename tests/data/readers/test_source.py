"""Sources: files with other column names, other formats, and rows that must be shaped first."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.conftest import SUFFIXES, write
from weft.data import DataError, read_rows
from weft.data.readers.formats import FORMATS, endings, format_of
from weft.data.readers.source import Source, as_source
from weft.errors import WeftError

ROWS = [
    {"s": "It rains.", "gold": "a", "n": 1},
    {"s": "né ☂", "gold": "b", "n": 2},
    {"s": "x", "gold": "a", "n": 3},
]


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_every_ending_has_a_reader_and_every_reader_is_there():
    assert set(endings().values()) <= set(FORMATS)
    assert all(callable(FORMATS[name].read) for name in FORMATS)
    assert (format_of("A.TSV.gz"), format_of("a.conll"), format_of("a.txt")) == ("tsv", "conll", None)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_carry_the_tasks_names(tmp_path, suffix):
    path = write(tmp_path / f"a{suffix}", ROWS)
    source = Source(path, columns={"text": "s", "label": "gold", "absent": "nowhere"})
    table = read_rows(source, ["text", "label"], ["n", "absent"])
    assert table.columns["text"] == [row["s"] for row in ROWS]
    assert table.columns["label"] == ["a", "b", "a"]
    assert set(table.columns) == {"text", "label", "n"}
    assert (table.called("text"), table.called("n")) == ("s", "n")
    plain = read_rows(path, ["s"])
    assert (table.source, table.unit, table.row.tolist()) == (plain.source, plain.unit, plain.row.tolist())
    with pytest.raises(DataError, match=r"column 'nowhere': there is no such column"):
        read_rows(source, ["absent"])


words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_one_column_may_be_two(pairs):
    with tempfile.TemporaryDirectory() as folder:
        path = jsonl(Path(folder) / "a.jsonl", *({"x": a, "y": b} for a, b in pairs))
        source = Source(path, columns={"one": "x", "x": "y", "again": "x"})
        table = read_rows(source, ["one", "x"], ["again"])
        assert table.columns == {
            "one": [a for a, _ in pairs],
            "x": [b for _, b in pairs],
            "again": [a for a, _ in pairs],
        }


def test_a_format_for_another_name(tmp_path):
    path = tmp_path / "msr.txt"
    path.write_text("a\tb\n1\t2\n")
    assert read_rows(Source(path, "tsv"), ["b"]).columns == {"b": ["2"]}
    with pytest.raises(DataError, match=r"found the ending '\.txt'.*for any other ending, set the format"):
        read_rows(Source(path), ["b"])


def test_names_for_a_file_without_them(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('x\t"one\ny\ttwo\n')
    table = read_rows(Source(path, options={"header": ["id", "text"]}), ["text"])
    assert (table.columns, table.row.tolist()) == ({"text": ['"one', "two"]}, [1, 2])
    with pytest.raises(DataError, match=r"column 'label'.*known: id, text; the option header names them"):
        read_rows(Source(path, options={"header": ["id", "text"]}), ["label"])


def test_csv_with_tabs(tmp_path):
    path = tmp_path / "quora-train.csv"
    path.write_text('\tid\ttext\n0\tx\t"a ""b""\tc"\n1\ty\n2\tz\td\n')
    source = Source(path, options={"delimiter": "\t", "ragged": "skip"})
    assert read_rows(source, ["text"]).columns == {"text": ['a "b"\tc', "d"]}
    assert read_rows(source, ["text"]).row.tolist() == [2, 4]
    with pytest.raises(DataError, match="line 3, column 'text': found 2 values"):
        read_rows(Source(path, options={"delimiter": "\t"}), ["text"])


def test_keys_inside_objects(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"t": {"x": 1, "y": 2}}, {"t": None}, {"t": {"x": 3}})
    source = Source(path, columns={"one": "t.x", "two": "t.y"})
    assert read_rows(source, ["one", "two"]).columns == {"one": [1, None, 3], "two": [2, None, None]}
    # written flat, the same names do
    flat = jsonl(tmp_path / "b.jsonl", {"t_x": 1, "t.y": 2})
    assert read_rows(Source(flat, columns=source.columns), ["one", "two"]).columns == {"one": [1], "two": [2]}
    with pytest.raises(
        DataError, match=r"column 'u\.x': there is no such column; known: t; no line has this key"
    ):
        read_rows(Source(path, columns={"one": "u.x"}), ["one"])
    assert read_rows(Source(path, columns={"one": "u.x"}), [], ["one"]).columns == {}


def test_rows_that_are_chosen(tmp_path):
    path = write(tmp_path / "a.csv", ROWS)
    table = read_rows(Source(path, options={"where": {"gold": "a"}}), ["s"])
    assert (table.columns, table.row.tolist()) == ({"s": ["It rains.", "x"]}, [2, 4])
    (tmp_path / "ids.txt").write_text("1\n\n3\n")
    for keep, expected in ((True, ["It rains.", "x"]), (False, ["né ☂"])):
        listed = {"file": "ids.txt", "columns": ["n"], "keep": keep}
        assert read_rows(Source(path, options={"listed": listed}), ["s"]).columns == {"s": expected}
    (tmp_path / "ids.txt").write_text("1\n2 3\n")
    with pytest.raises(DataError, match=r"ids\.txt, line 2: found 2 values; expected 1, one per column"):
        read_rows(Source(path, options={"listed": {"file": "ids.txt", "columns": ["n"]}}), ["s"])


def test_values_that_are_exchanged(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"label": "-"}, {"label": True}, {"label": "x"}, {"label": [1]})
    source = Source(path, options={"values": {"label": {"-": -1, "True": 1}}})
    assert read_rows(source, ["label"]).columns == {"label": [-1, 1, "x", [1]]}


def test_columns_that_are_computed(tmp_path):
    rows = [{"answers": ["b"], "entities": ["a", "b"]}, {"answers": [], "entities": ["a"]}]
    source = Source(
        jsonl(tmp_path / "a.jsonl", *rows),
        options={"computed": {"label": {"ids_among": ["answers", "entities"]}}},
    )
    assert read_rows(source, ["entities", "label"]).columns == {
        "entities": [["a", "b"], ["a"]],
        "label": [[1], None],
    }
    jsonl(source.path, *rows, {"answers": ["z"], "entities": ["a"]}, {"answers": 3, "entities": ["a"]})
    with pytest.raises(DataError) as error:
        read_rows(source, ["label"])
    assert "line 3, column 'answers': found ['z']; expected an answer that is one of the choices" in str(
        error.value
    )
    assert "line 4, column 'answers': found 3; expected a list of texts" in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "format 'xml'; .*known: conll, csv"),
        ({"columns": ["text"]}, "columns: expected names with their values"),
        ({"columns": {"text": 1}}, "columns: expected the task's name: the file's name"),
        ({"options": {"headers": []}}, "format 'csv' has no option 'headers'; did you mean 'header'"),
        ({"options": {"where": 3}}, "options: where: expected columns"),
        ({"options": {"values": {"label": 3}}}, "options: values: label: expected old: new"),
        ({"options": {"computed": {"label": {"sum": ["a"]}}}}, "rule 'sum'; .*known: char_spans, ids_among"),
        ({"options": {"computed": {"label": "sum"}}}, r"expected RULE: \[COLUMN"),
        ({"options": {"computed": {"label": {"ids_among": "a"}}}}, "ids_among: expected columns"),
        ({"options": {"listed": {"file": "x"}}}, "options: listed: expected"),
        ({"format": "hub"}, "format 'hub' needs the option 'split'"),
    ],
)
def test_wrong_sources(settings, message):
    with pytest.raises(WeftError, match=message):
        Source(Path("a.csv"), **settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": "text"}, "header: expected a list of names"),
        ({"delimiter": "::"}, "delimiter: expected one character"),
        ({"ragged": "drop"}, "ragged: expected error or skip"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    with pytest.raises(WeftError, match=message):
        read_rows(Source(write(tmp_path / "a.csv", ROWS), options=options), ["s"])


def test_settings_make_the_same_source_again(tmp_path):
    source = Source(tmp_path / "a.txt", "tsv", {"text": "s"}, {"header": ["s", "n"]})
    again = as_source(json.loads(json.dumps(source.settings())))
    assert again == source
    assert as_source({"path": "a.txt", "format": "tsv"}, tmp_path) == Source(tmp_path / "a.txt", "tsv")
    assert as_source("a.csv", tmp_path) == tmp_path / "a.csv"
    assert as_source(source) is source
    hub = Source(Path("nyu-mll/glue/cola"), "hub", options={"split": "train"})
    assert as_source(hub.settings(), tmp_path) == hub
    assert hub.settings()["path"] == "nyu-mll/glue/cola"


@pytest.mark.parametrize("given", [3, {}, {"file": "a.csv"}, {"path": ""}, {"path": 3}, ""])
def test_what_is_no_source(given):
    with pytest.raises(WeftError, match="expected a file"):
        as_source(given)


def test_a_setting_that_no_file_has():
    with pytest.raises(WeftError, match="no setting 'colums'; did you mean 'columns'"):
        as_source({"path": "a.csv", "colums": {}})
