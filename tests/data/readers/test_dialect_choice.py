"""A format's default is kept wherever it reads a file; otherwise the dialect is detected or suggested."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.data.checks.check import check
from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows
from weft.data.readers.source import Source, as_source
from weft.data.splits.entry import as_run_file
from weft.errors import WeftError
from weft.tasks.task import Task

COLUMNS = ["text", "label"]


def read(tmp_path, name, data, **options):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_rows(Source(tmp_path / name, options=options), COLUMNS)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.text("ab ,;\t\"'|\né", max_size=9), min_size=2, max_size=2), min_size=1),
    extra=st.booleans(),
    form=st.sampled_from(["csv", "tsv"]),
)
def test_what_the_default_reads_is_read_as_before(tmp_path, rows, extra, form):
    """Whatever the texts look like: a csv with commas and quotes, a tsv with tabs and without quotes."""
    if form == "tsv":
        rows = [[value.replace("\t", " ").replace("\n", " ") for value in row] for row in rows]
    # the csv reader of Python skips blank records, and weft does too
    rows = [row for row in rows if any(value for value in row)] or [["a", "b"]]
    text = io.StringIO(newline="")
    if form == "csv":
        csv.writer(text).writerows(
            [["text", "label", *["id"] * extra], *([*row, *["7"] * extra] for row in rows)]
        )
    else:
        lines = [["text", "label", *["id"] * extra], *([*row, *["7"] * extra] for row in rows)]
        text.write("".join("\t".join(line) + "\n" for line in lines))
    table = read(tmp_path, f"a.{form}", text.getvalue())
    assert table.columns == {"text": [row[0] for row in rows], "label": [row[1] for row in rows]}
    assert not any("detected" in note for note in table.notes)


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("a.csv", "id;text;label\n1;Well, no;0\n2;é;1\n", "delimiter: ';'"),
        ("a.csv", "id\ttext\tlabel\n1\tWell, no\t0\n", 'delimiter: "\\t"'),
        ("a.tsv", "text|label\na|0\n", "delimiter: '|'"),
        ("a.csv", "text,label\né,0\n".encode("latin-1"), "encoding: cp1252"),
        ("a.csv", "text;label\né,\r\n;0\n".replace("\r\n", "").encode("utf-16"), "encoding: utf-16"),
        (
            "a.csv.gz",
            gzip.compress("text;label\né;0\n".encode("cp1252"), mtime=0),
            "encoding: cp1252, delimiter: ';'",
        ),
        ("a.tsv", '"text"\t"label"\n"a\nb"\t"0"\n', "quotes: true"),
        ("a.jsonl", '{"text": "é", "label": 0}\n'.encode("utf-16"), "encoding: utf-16"),
    ],
)
def test_what_is_detected_is_reported(tmp_path, name, data, note):
    table = read(tmp_path, name, data)
    assert set(table.columns) == {"text", "label"}
    assert len(table.notes) == 1
    assert note in table.notes[0]
    task = Task("films", labels=("0", "1"), files={"train": tmp_path / name})
    notes = [finding for finding in check([task]).findings if finding.severity == "note"]
    assert [finding.message for finding in notes] == list(table.notes)


def test_a_byte_far_behind_the_sample_is_detected(tmp_path):
    rows = "a plain line,0\n" * 90_000  # more than a sample
    data = f"text,label\n{rows}".encode() + "café,1\n".encode("cp1252")
    table = read(tmp_path, "a.csv", data)
    assert table.columns["text"][-1] == "café"
    assert "encoding: cp1252" in table.notes[0]


@pytest.mark.parametrize(
    ("name", "data", "options", "words"),
    [
        (
            "reviews.csv",
            "id;text;label\n1;a;0\n",
            {"delimiter": ","},
            [
                "column 'text'",
                "has one column 'id;text;label': it looks like delimiter ';'. Write: delimiter: ';'",
            ],
        ),
        (
            "a.tsv",
            '"text"\t"label"\n"a"\t"0"\n',
            {"quotes": False},
            ["looks as if values were", "quotes: true"],
        ),
        ("a.csv", 'text,label\n"a" b,0\n', {}, ["line 2", "broken quotes", "Write: quotes: false"]),
        ("a.csv", "text,label\né,0\n", {"encoding": "ascii"}, ["line 2", "0xc3", "Write: encoding: utf-8"]),
        ("a.csv", b"text,label\n\xe9,0\n", {"encoding": "utf8"}, ["line 2", "0xe9", "encoding: cp1252"]),
        (
            "a.jsonl",
            b'{"text": "\xe9"}\n',
            {},
            ["line 1", "0xe9", "(byte 11 of the file)", "encoding: cp1252"],
        ),
        (
            "a.csv",
            "text,label\né,0\n".encode("utf-16"),
            {"encoding": "utf-8"},
            ["line 1", "encoding: utf-16"],
        ),
    ],
)
def test_a_dialect_that_does_not_fit_names_the_key_to_write(tmp_path, name, data, options, words):
    with pytest.raises(DataError) as error:
        read(tmp_path, name, data, **options)
    for word in [name, *words]:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": "::"}, "delimiter: expected one character"),
        ({"delimiter": '"'}, "cannot separate values"),
        ({"quotes": "yes"}, "quotes: expected true or false"),
        ({"encoding": "utf-9"}, "encoding: expected a name such as utf-8"),
    ],
)
def test_keys_are_checked(tmp_path, options, words):
    with pytest.raises(WeftError, match=words):
        read(tmp_path, "a.csv", "text,label\na,0\n", **options)


def test_keys_win(tmp_path):
    table = read(tmp_path, "a.csv", "text,label\né,0\n", encoding="latin-1")
    assert table.columns["text"] == ["Ã©"]
    assert table.notes == ()
    table = read(tmp_path, "a.tsv", 'text\tlabel\n"a"\t0\n', quotes=True)
    assert table.columns["text"] == ["a"]
    for spelling in ("\t", "tab", "\\t"):
        assert read(tmp_path, "a.csv", "text\tlabel\na\t0\n", delimiter=spelling).columns["text"] == ["a"]


def test_a_tsv_that_looks_quoted_is_read_as_before_and_reported(tmp_path):
    table = read(tmp_path, "a.tsv", 'text\tlabel\n"say ""hi"""\t0\n')
    assert table.columns["text"] == ['"say ""hi"""']
    assert "write: quotes: true" in table.notes[0]


def test_the_keys_of_a_task_hold_for_its_files(tmp_path):
    (tmp_path / "a.csv").write_bytes("text|label\né|0\nb|1\n".encode("latin-1"))
    (tmp_path / "b.csv").write_text("text;label\nc;0\nd;1\n")
    files = {
        "train": tmp_path / "a.csv",
        "validation": Source(tmp_path / "b.csv", options={"delimiter": ";"}),
    }
    task = Task("films", labels=("0", "1"), files=files, delimiter="|", encoding="latin-1")
    report = check([task])
    assert report.ok, report.lines()
    assert [facts.rows for facts in report.facts] == [2, 2]
    entry = as_run_file(task)
    assert (entry["delimiter"], entry["encoding"]) == ("|", "latin-1")
    assert "quotes" not in entry


def test_keys_may_stand_beside_the_path(tmp_path):
    source = as_source(
        {"path": "a.csv", "delimiter": ";", "quotes": None, "options": {"ragged": "skip"}}, tmp_path
    )
    assert source == Source(tmp_path / "a.csv", options={"ragged": "skip", "delimiter": ";"})
