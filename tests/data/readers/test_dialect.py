"""A file written in any dialect is detected, and read back as it was written."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.data.readers.dialect import Dialect, detect_dialect, plain_dialect

WORDS = st.sampled_from(["a", "film", "well,", "no;", "x|y", "Größe", "café", '"hi"', "1,5", "so", "-", "é"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
ODD = st.sampled_from(["one\ntwo", "tab\there", '"', 'he said "no", then left', "a\r\nb", ",", ";;", '""'])
LABELS = st.sampled_from(["pos", "neg", "0", "1"])
HEADER = ["id", "text", "label"]


def write(path: Path, rows: list[list[str]], encoding: str, delimiter: str, quoting: int) -> None:
    text = io.StringIO(newline="")
    options = {"quotechar": None} if quoting == csv.QUOTE_NONE else {}
    csv.writer(text, delimiter=delimiter, quoting=quoting, **options).writerows(rows)  # type: ignore[arg-type]
    data = text.getvalue().encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read_back(path: Path, dialect: Dialect) -> list[list[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    quoting = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    with opened(path, "rt", encoding=dialect.encoding, newline="") as file:
        return list(csv.reader(file, delimiter=dialect.delimiter, quoting=quoting))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.one_of(TEXTS, ODD), LABELS), min_size=1, max_size=12),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-32"]),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    name=st.sampled_from(["a.csv", "a.tsv", "a.txt", "a.csv.gz"]),
)
def test_written_rows_are_read_back(tmp_path, rows, encoding, delimiter, quoting, name):
    rows = [HEADER, *([str(at), *row] for at, row in enumerate(rows, 10))]
    write(tmp_path / name, rows, encoding, delimiter, quoting)
    dialect = detect_dialect(tmp_path / name)
    assert read_back(tmp_path / name, dialect) == rows, dialect
    assert dialect.header
    assert dialect.delimiter == delimiter


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(TEXTS, LABELS), min_size=3, max_size=12),
    stray=st.sampled_from(['"Hello he said', 'a "word" inside', 'ends with"', '"A" and "B"']),
)
def test_quotes_in_a_plain_tsv_are_characters(tmp_path, rows, stray):
    path = tmp_path / "a.tsv"
    rows = [HEADER, *([str(at), *row] for at, row in enumerate([*rows, (stray, "pos")], 10))]
    write(path, rows, "utf-8", "\t", csv.QUOTE_NONE)
    dialect = detect_dialect(path)
    assert dialect == Dialect("utf-8", "\t", False, True)
    assert read_back(path, dialect) == rows


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(200, 2000))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_any_sample_size_gives_the_same_dialect(tmp_path, encoding, cut):
    """A sample may end inside a character, a quoted field or a line end."""
    path = tmp_path / "a.csv"
    if not path.exists():
        rows = [[str(at), "één, twee;\ndrie “vier”", "pos" if at % 3 else "neg"] for at in range(60)]
        write(path, [HEADER, *rows], encoding, ";", csv.QUOTE_MINIMAL)
    assert detect_dialect(path, cut) == Dialect(encoding, ";", True, True)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cola.tsv", "gj04\t1\t\tOur friends\ngj04\t0\t*\tThey, it.\n", Dialect("utf-8", "\t", False, False)),
        ("a.csv", "great film,pos\nbad film,neg\nso so,pos\n", Dialect(header=False)),
        ("a.csv", "text\nWell, no\nYes, yes\n", Dialect()),
        ("a.csv", "", Dialect()),
        ("a.csv", "1;Hello, you;0\n2;Bye, you;1\n", Dialect(delimiter=";", header=False)),
        ("a.csv", "Bewertung;Note\nSehr gut, danke;1,5\n", Dialect(delimiter=";")),
        ("a.csv", 'id,text\n1,"Hello" he said\n2,x\n', Dialect(quotes=False)),
        ("a.tsv", 'id\ttext\n1\t"Hello"\n2\tx\n', Dialect(delimiter="\t", quotes=False)),
        ("a.tsv", '"id"\t"text"\n"1"\t"Hello"\n', Dialect(delimiter="\t", quotes=True)),
        ("a.tsv", 'id\ttext\n1\t"say ""hi"""\n2\tx\n', Dialect(delimiter="\t", quotes=True)),
        ("a.csv", ",text,label\n0,good,1\n1,bad,0\n", Dialect()),
        ("a.csv", "id\ttext\r1\ta, b\r2\tc\r", Dialect(delimiter="\t", quotes=False)),
    ],
)
def test_files_that_users_have(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text, "utf-8", newline="")
    assert detect_dialect(tmp_path / name) == expected


def test_the_keys_of_a_dialect_are_those_that_differ():
    plain = plain_dialect(Path("a.csv"))
    assert Dialect("utf-8-sig").keys(plain) == {}
    assert Dialect("cp1252", ";").keys(plain) == {"encoding": "cp1252", "delimiter": ";"}
    assert Dialect("utf-8", "\t", True).keys(plain_dialect(Path("a.tsv.gz"))) == {"quotes": True}


def test_detection_imports_no_torch():
    code = "import sys, weft.data.readers.dialect; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
