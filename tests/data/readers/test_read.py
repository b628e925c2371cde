import csv
import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.conftest import SUFFIXES, as_text, write
from weft.data import DataError, read_rows

ROWS = [
    {"text": "It rains.", "n": "1"},
    {"text": 'He said "no", twice', "n": "2"},
    {"text": "né ☂ 雨", "n": "3"},
]
any_text = st.text(st.characters(exclude_categories=("Cs",)))
hard_text = any_text | st.text(st.sampled_from("\"',\t\n\r;\\ aé☂\x00\x85\u2028\ufeff"))


def texts_of(table):
    return list(zip(*table.columns.values(), strict=True))


def rows_of(pairs):
    return [{"one": a, "two": b} for a, b in pairs]


@given(
    st.lists(st.tuples(hard_text, hard_text), min_size=1, max_size=8),
    st.sampled_from([".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_what_is_written_is_read(pairs, suffix, end):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / f"a{suffix}", rows_of(pairs), end=end, quoting=csv.QUOTE_ALL)
        table = read_rows(path, ["one", "two"])
        assert texts_of(table) == pairs
        assert texts_of(read_rows(path, ["two"])) == [(b,) for _, b in pairs]


@given(
    st.lists(st.tuples(hard_text, hard_text), min_size=1, max_size=8),
    st.sampled_from([".tsv", ".tsv.gz"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_tsv_holds_all_but_tabs_and_line_breaks(pairs, suffix, end):
    pairs = [tuple("".join(c for c in text if c not in "\t\r\n") for text in pair) for pair in pairs]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / f"a{suffix}", rows_of(pairs), end=end)
        assert texts_of(read_rows(path, ["one", "two"])) == pairs


@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=8))
def test_csv_with_as_few_quotes_as_can_be(pairs):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.csv", rows_of(pairs), end="\r\n")
        assert texts_of(read_rows(path, ["one", "two"])) == pairs


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_says_the_same(tmp_path, suffix):
    table = read_rows(write(tmp_path / f"a{suffix}", ROWS), ["text"], optional=["n", "absent"])
    assert table.columns == {"text": [r["text"] for r in ROWS], "n": [r["n"] for r in ROWS]}
    assert len(table) == 3


def test_rows_in_memory():
    table = read_rows(ROWS, ["text"], name="rows of task 'x'")
    assert (table.source, table.row.tolist()) == ("rows of task 'x'", [1, 2, 3])
    assert table.columns["text"][0] == "It rains."


def test_values_keep_their_types(tmp_path):
    rows = [{"text": "a", "label": 1, "score": 0.5}, {"text": "b", "label": 0, "score": 2.0}]
    for suffix in (".jsonl", ".parquet"):
        table = read_rows(write(tmp_path / f"a{suffix}", rows), ["label", "score"])
        assert table.columns == {"label": [1, 0], "score": [0.5, 2.0]}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_marks_and_line_ends(tmp_path, suffix, end, mark):
    rows = [{"text": "It rains.", "n": "1"}, {"text": "né ☂", "n": "2"}]
    path = tmp_path / f"a{suffix.upper()}"
    path.write_bytes(mark + as_text(rows, suffix, end).encode())
    table = read_rows(path, ["text"])
    assert table.columns["text"] == ["It rains.", "né ☂"]
    assert table.row.tolist() == ([1, 2] if suffix == ".jsonl" else [2, 3])


def test_the_line_is_where_a_record_begins(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"two\nlines",0\n\nnext,1\n"",1', "utf-8")
    table = read_rows(path, ["text"])
    assert table.columns["text"] == ["two\nlines", "next", ""]
    assert table.row.tolist() == [2, 5, 6]


def test_texts_longer_than_the_csv_module_takes(tmp_path):
    before = csv.field_size_limit()
    path = write(tmp_path / "a.csv", [{"text": "a, " * 100_000, "n": 1}])
    assert len(read_rows(path, ["text"]).columns["text"][0]) == 300_000
    assert csv.field_size_limit() == before


def test_a_key_that_some_lines_lack_is_none(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": 1}\n\n{"text": "b"}\n')
    table = read_rows(path, ["text", "label"])
    assert table.columns["label"] == [1, None]
    assert table.row.tolist() == [1, 3]


PACKED = gzip.compress(b"text,label\n" + b"some words,0\n" * 500)
WRONG = {
    "empty csv": ("a.csv", b"", ["the file is empty; expected at least one row"]),
    "blank csv": ("a.csv", b"\n\r\n\n", ["the file is empty"]),
    "only a mark": ("a.csv", b"\xef\xbb\xbf", ["the file is empty"]),
    "no rows": ("a.csv", b"text,label\n", ["names 2 columns and has no rows"]),
    "missing column": (
        "a.csv",
        b"txt,label\na,0\n",
        ["line 1, column 'text'", "did you mean 'txt'? known: label, txt"],
    ),
    "both columns missing": ("a.csv", b"a,b\na,0\n", ["column 'text'", "column 'label'", "known: a, b"]),
    "no header": (
        "a.csv",
        b"good film,0\nbad,1\n",
        ["column 'text'", "the first line must name the columns"],
    ),
    "a long first line": (
        "a.csv",
        b"word " * 99 + b",0\nb,1\n",
        ["column 'text'", "word word …; the first line"],
    ),
    "column twice": (
        "a.csv",
        b"text,label,text\na,0,b\n",
        ["line 1, column 'text'", "found 2 columns with this name"],
    ),
    "short row": ("a.csv", b"text,label\na,0\nb\n", ["line 3, column 'label'", "found 1 value; expected 2"]),
    "long row": (
        "a.csv",
        b"text,label\na,0\nwell, b,1\n",
        ["line 3", "found 3 values; expected 2", "'1'", "must be quoted"],
    ),
    "open quote": (
        "a.csv",
        b'text,label\na,0\n"b,1\nc,0\n',
        ["line 3", "broken quotes", "ends in line 4"],
    ),
    "quote inside": ("a.csv", b'text,label\n"a "b" c",0\n', ["line 2", "broken quotes", "doubled"]),
    "damaged UTF-8": (
        "a.csv",
        "text,label\né,0\nü,0\n".encode() + b"n\xe9,1\n",
        ["line 4", "found the byte 0xe9 (byte 23 of the file); expected UTF-8", "this line is damaged"],
    ),
    "damaged UTF-8, CR": ("a.csv", "text,label\ré,0\rü,1\r".encode() + b"\xe9,1\r", ["line 4", "0xe9"]),
    "Cyrillic": (
        "a.csv",
        b"text,label\n" + "очень хорошо,1\n".encode("cp1251") * 9,
        ["encoding: cp1251"],
    ),
    "gzip without .gz": ("a.csv", PACKED, ["line 1", "it looks like gzip: rename it to end in .gz"]),
    "excel": ("a.csv", b"PK\x03\x04\xff\xff", ["it looks like a zip or Excel file"]),
    "parquet as csv": ("a.csv", b"PAR1\xff\xff", ["it looks like parquet"]),
    "colons in tsv": (
        "a.tsv",
        b"text:label\na:0\n",
        ["line 1, column 'text'", "has one column 'text:label'"],
    ),
    "short tsv row": ("a.tsv", b"text\tlabel\na\t0\nb 1\n", ["line 3, column 'label'", "found 1 value"]),
    "tab in tsv text": ("a.tsv", b"text\tlabel\na\tb\t0\n", ["line 2", "found 3 values", "has no tab"]),
    "bad json": (
        "a.jsonl",
        b'{"text": "a", "label": 0}\n{"text": "b" "label": 1}\n',
        ["line 2", "at character 14"],
    ),
    "cut json": (
        "a.jsonl",
        b'{"text": "a", "label": 0}\n{"text": "b',
        ["line 2", "Unterminated string", "character 10"],
    ),
    "single quotes": ("a.jsonl", b"{'text': 'a'}\n", ["line 1", "not JSON", "at character 2"]),
    "a list a line": (
        "a.jsonl",
        b'\n["a", 0]\n',
        ["line 2", "found ['a', 0]; expected one JSON object per line"],
    ),
    "a number a line": ("a.jsonl", b"1\n", ["line 1", "found 1; expected one JSON object"]),
    "pretty json": (
        "a.jsonl",
        b'[\n {"text": "a"}\n]\n',
        ["line 1", "not JSON", "expected one JSON object per line"],
    ),
    "deep json": ("a.jsonl", b"[" * 100_000, ["line 1", "JSON that cannot be read"]),
    "huge number": ("a.jsonl", b'{"text": ' + b"1" * 5000 + b"}", ["line 1", "JSON that cannot be read"]),
    "blank jsonl": ("a.jsonl", b"\n \n", ["the file is empty"]),
    "no such key": ("a.jsonl", b'{"texts": "a", "label": 0}\n', ["column 'text'", "did you mean 'texts'?"]),
    "latin-1 jsonl": (
        "a.jsonl",
        b'{"text": "a"}\n{"text": "\xe9"}\n',
        ["line 2", "0xe9", "encoding: cp1252"],
    ),
    "not gzip": ("a.csv.gz", b"text,label\na,0\n", ["not complete gzip", "remove .gz"]),
    "cut gzip": ("a.csv.gz", PACKED[: len(PACKED) // 2], ["not complete gzip"]),
    "damaged gzip": ("a.csv.gz", PACKED[:-8] + b"\x00" * 8, ["not complete gzip", "CRC"]),
    "empty gzip": ("a.tsv.gz", gzip.compress(b""), ["the file is empty"]),
    "latin-1 in gzip": ("a.jsonl.gz", gzip.compress(b'{}\n{"\xe9": 1}'), ["line 2", "0xe9"]),
    "not parquet": ("a.parquet", b"text,label\na,0\n", ["not complete parquet"]),
    "empty parquet": ("a.parquet", b"", ["the file is empty"]),
    "unknown ending": (
        "a.xlsx",
        b"{}",
        ["found the ending '.xlsx'; expected a name that ends in .conll, .conll.gz, .csv", "set the format"],
    ),
    "no ending": ("data", b"{}", ["found the ending ''; expected a name that ends in"]),
}


@pytest.mark.parametrize(("name", "data", "words"), WRONG.values(), ids=WRONG)
def test_wrong_files(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        read_rows(path, ["text", "label"])
    for word in [str(path), *words]:
        assert word in str(error.value)
    assert all(problem.source == str(path) for problem in error.value.problems)


def test_wrong_parquet(tmp_path):
    path = write(tmp_path / "a.parquet", [{"text": "a" * 1000, "label": 1}])
    with pytest.raises(DataError, match=r"a\.parquet, column 'texts': .* did you mean 'text'\?"):
        read_rows(path, ["texts"])
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:20] + b"\xff" * 40 + whole[60:]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"a\.parquet: the file is not complete parquet"):
            read_rows(path, ["text"])


def test_parquet_without_rows_and_without_utf8(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "none.parquet")
    with pytest.raises(DataError, match="the file has no rows"):
        read_rows(tmp_path / "none.parquet", ["text"])
    bad = pa.array([b"fine", b"n\xe9"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad}), tmp_path / "bad.parquet")
    with pytest.raises(DataError, match=r"bad\.parquet, row 2, column 'text': found the bytes b'n\\xe9'"):
        read_rows(tmp_path / "bad.parquet", ["text"])


def test_files_that_are_not_there(tmp_path, monkeypatch):
    write(tmp_path / "train.csv", ROWS)
    with pytest.raises(DataError, match=r"tran\.csv: there is no such file; did you mean 'train.csv'\?"):
        read_rows(tmp_path / "tran.csv", ["text"])
    with pytest.raises(DataError, match=r"there is no such file; the folder holds: train\.csv"):
        read_rows(tmp_path / "x.parquet", ["text"])
    with pytest.raises(DataError, match="there is no such file, nor the folder"):
        read_rows(tmp_path / "nowhere" / "train.csv", ["text"])
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="found a folder; expected a file"):
        read_rows(tmp_path / "folder.csv", ["text"])
    with pytest.raises(DataError, match="the file cannot be read: File name too long"):
        read_rows(tmp_path / ("x" * 300 + ".csv"), ["text"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="relative to"):
        read_rows("tran.csv", ["text"])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "rows of x: there are no rows"),
        ([{"text": "a"}, "b"], "rows of x, row 2: found 'b'; expected a dict"),
        ([{"txt": "a"}], "rows of x, column 'text': there is no such column; did you mean 'txt'"),
        (3, "rows of x: found int; expected a file's path or a sequence of dicts"),
        (b"train.csv", "rows of x: found bytes; expected a file's path"),
    ],
)
def test_wrong_rows_in_memory(rows, words):
    with pytest.raises(DataError) as error:
        read_rows(rows, ["text"], name="rows of x")
    assert words in str(error.value)
