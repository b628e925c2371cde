"""Files that are wrong in one way each, with what must be said of them; and odd ones that are right.

A case is a task's settings, the bytes of its training file under a name, and the words of the message, of
which the first is the place. `source` is what a run file says beside the path, where the
name does not tell it.
"""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = b"\x00a folder, not a file"
"""Stands for no bytes: the name is that of a folder."""

CLASSIFY = {"labels": ["no", "yes"]}
PAIR = {"labels": ["no", "yes"], "texts": ["a", "b"]}
REGRESS = {"kind": "regress", "range": [0, 5]}


@dataclass(frozen=True)
class Case:
    """One file; `words` are in the message, which begins with the file and the first of them, the place."""

    task: dict[str, Any]
    name: str
    data: bytes
    words: tuple[str, ...] = ()
    source: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if self.data == FOLDER:
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.data)
        return path


def wrong(task: dict[str, Any], name: str, data: bytes | str, *words: str, **source: Any) -> Case:
    return Case(task, name, data if isinstance(data, bytes) else data.encode(), words, source)


def lines(*rows: Any) -> bytes:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()


def parquet(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


TEXT = {"text": "The old cat", "label": "no"}
CSV = b"text,label\n" + b"some words,no\nother words,yes\n" * 300
LINE_3 = "line 3"

OF_ANY_KIND: dict[str, Case] = {
    # not the bytes that they should be
    "empty csv": wrong(CLASSIFY, "a.csv", b"", "the file is empty", "expected at least one row"),
    "header alone": wrong(CLASSIFY, "a.csv", b"text,label\n", "the file names 2 columns and has no rows"),
    "damaged UTF-8 in csv": wrong(
        CLASSIFY, "a.csv", "text,label\néé,no\n".encode() + b"n\xe9,yes\n", LINE_3, "0xe9", "expected UTF-8"
    ),
    "excel": wrong(CLASSIFY, "a.csv", b"PK\x03\x04\xff\xff", "line 1", "zip or Excel file: save it as csv"),
    "gzip cut short": wrong(CLASSIFY, "a.csv.gz", gzip.compress(CSV)[:40], "the file is not complete gzip"),
    "gzip that is none": wrong(CLASSIFY, "a.csv.gz", CSV, "the file is not complete gzip", "remove .gz"),
    "parquet cut short": wrong(
        CLASSIFY, "a.parquet", parquet(text=["a"], label=["no"])[:-9], "not complete parquet"
    ),
    "parquet that is none": wrong(CLASSIFY, "a.parquet", CSV, "the file is not complete parquet", "again"),
    "a folder": wrong(CLASSIFY, "a.csv", FOLDER, "found a folder; expected a file"),
    "an unknown ending": wrong(
        CLASSIFY, "a.xlsx", CSV, "found the ending '.xlsx'", "expected a name that ends in"
    ),
    # columns
    "wrong column": wrong(
        CLASSIFY, "a.csv", b"txt,label\na,no\n", "line 1, column 'text'", "did you mean 'txt'?"
    ),
    "renamed column": wrong(
        CLASSIFY,
        "a.tsv",
        b"s\tgold\na\tno\n",
        "line 1, column 'sentence'",
        "known: gold, s",
        columns={"text": "sentence"},
    ),
    "column twice": wrong(
        CLASSIFY, "a.csv", b"text,label,text\na,no,b\n", "line 1, column 'text'", "found 2 columns"
    ),
    "header that does not fit": wrong(
        CLASSIFY,
        *(
            "a.tsv",
            b"x\tno\ta\nx\tno\n",
            "line 2, column 'text'",
            "found 2 values; expected 3",
            "the option header",
        ),
        options={"header": ["source", "label", "text"]},
    ),
    "short row": wrong(
        CLASSIFY, "a.tsv", b"text\tlabel\na\tno\nb\n", "line 3, column 'label'", "found 1 value; expected 2"
    ),
    "long row": wrong(
        CLASSIFY, "a.csv", b"text,label\na,no\nwell, b,no\n", "line 3, column 'label'", "found 3 values"
    ),
    "open quote": wrong(CLASSIFY, "a.csv", b'text,label\na,no\n"b,no\n', LINE_3, "broken quotes", "doubled"),
    "no such key": wrong(
        PAIR, "a.jsonl", lines({"a": "x", "c": "y", "label": "no"}), "column 'b'", "no line has this key"
    ),
    "key missing in a line": wrong(
        PAIR,
        "a.jsonl",
        lines({"a": "x", "b": "y", "label": 0}, {"a": "x", "label": 0}),
        "line 2, column 'b'",
        "missing",
    ),
    "object that is none": wrong(
        CLASSIFY,
        *("a.jsonl", lines({"t": {"x": "a"}, "label": 0}, {"t": "a", "label": 0})),
        *("line 2, column 't'", "found 'a'; expected an object with the key 'x'"),
        columns={"text": "t.x"},
    ),
    # jsonl
    "bad json line": wrong(
        CLASSIFY, "a.jsonl", lines(TEXT, '{"text": "b" "label": 1}'), "line 2", "not JSON", "character 14"
    ),
    "json cut short": wrong(
        CLASSIFY, "a.jsonl", lines(TEXT, TEXT)[:-9], "line 2", "not JSON", "expected one JSON object"
    ),
    "a list a line": wrong(
        CLASSIFY, "a.jsonl", lines(TEXT, ["a", 0]), "line 2", "found ['a', 0]", "JSON object per line"
    ),
    "nested too deep": wrong(CLASSIFY, "a.jsonl", b"[" * 100_000, "line 1", "JSON that cannot be read"),
    # texts and labels
    "empty text": wrong(
        CLASSIFY, "a.csv", b'text,label\na,no\n" ",no\n', "line 3, column 'text'", "not empty"
    ),
    "text that is a number": wrong(
        CLASSIFY, "a.jsonl", lines(TEXT, {"text": 3, "label": 0}), "line 2, column 'text'", "a string"
    ),
    "half a surrogate": wrong(
        CLASSIFY,
        "a.jsonl",
        lines('{"text": "\\ud83d", "label": 0}'),
        "line 1, column 'text'",
        "expected valid Unicode",
    ),
    "unknown label": wrong(
        CLASSIFY,
        "a.csv",
        b"text,label\na,no\nb,maybe\n",
        "line 3, column 'label'",
        "found 'maybe'",
        "one of no, yes",
    ),
    "label out of range": wrong(
        CLASSIFY, "a.jsonl", lines(TEXT, {"text": "b", "label": 2}), "line 2, column 'label'", "0 to 1"
    ),
    "label missing": wrong(
        CLASSIFY, "a.csv", b"text,label\na,no\nb,\n", "line 3, column 'label'", "the label is missing"
    ),
    "no gold label": wrong(
        CLASSIFY,
        "a.jsonl",
        lines(TEXT, {"text": "b", "label": -1}),
        "line 2, column 'label'",
        "no gold label",
    ),
    "number out of range": wrong(
        REGRESS, "a.csv", b"text,label\na,1\nb,5.5\n", "line 3, column 'label'", "found '5.5'", "0 to 5"
    ),
    "word for a number": wrong(
        REGRESS, "a.csv", b"text,label\na,1\nb,high\n", "line 3, column 'label'", "expected a number"
    ),
    "nan": wrong(
        REGRESS, "a.csv", b"text,label\na,1\nb,inf\n", "line 3, column 'label'", "found 'inf'", "finite"
    ),
    # lists of rows
    "list of rows that is empty": wrong(
        CLASSIFY,
        *("a.csv", b"id,text,label\n1,a,no\n", "none of the 1 rows passes the filter: id 2"),
        options={"where": {"id": 2}},
    ),
    "parquet row": wrong(
        CLASSIFY,
        "a.parquet",
        parquet(text=["a", None], label=["no", "no"]),
        "row 2, column 'text'",
        "missing",
    ),
    "parquet label": wrong(
        CLASSIFY, "a.parquet", parquet(text=["a", "b"], label=[0, 5]), "row 2, column 'label'", "found 5"
    ),
}
