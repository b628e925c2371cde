"""`weft predict`, in this process: every kind of input and output, and lines that cannot be read."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from tests.support.near import assert_near
from tests.support.predicting import FORMS, piped, predict, write_table
from tests.support.tiny_run import WORDS, trained_run, write_rows
from weft.cli import run
from weft.inference import stream

TEXTS = st.lists(st.sampled_from((*WORDS, "é", '"', ",")), min_size=1, max_size=12).map(" ".join)
ROWS = st.lists(
    st.fixed_dictionaries({"task": st.sampled_from(["cat", "count"]), "text": TEXTS}), min_size=1, max_size=9
)
QUIET = {
    "deadline": None,
    "max_examples": examples(8),
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with trained_run(tmp_path_factory.mktemp("predict")) as folder:
        yield folder


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(stream, "SIZES", (2, 4))


@settings(**QUIET)
@given(ROWS)
def test_every_format_of_the_same_rows_gives_the_same_answers(done, capsys, rows):
    rows = [{"number": str(number), **row} for number, row in enumerate(rows)]
    out = done / "out"
    expected = predict(capsys, out, write_table(done / "same.jsonl", rows), "--id", "number")
    assert (expected[0], [row["id"] for row in expected[1]]) == (0, [row["number"] for row in rows])
    for form in FORMS[1:]:
        file = write_table(done / f"same.{form}", rows)
        assert predict(capsys, out, file, "--id", "number")[:2] == expected[:2]
    with pytest.MonkeyPatch.context() as patch:
        name = piped(patch, (done / "same.jsonl").read_bytes())
        assert predict(capsys, out, name, "--id", "number")[:2] == expected[:2]


LINES = st.one_of(
    st.builds(lambda text: {"task": "cat", "text": text}, TEXTS),
    st.builds(lambda text: {"task": "count", "text": text}, TEXTS),
    st.builds(lambda a, b: {"task": "same", "a": a, "b": b}, TEXTS, TEXTS),
    st.sampled_from(
        ["{", "[1]", '{"task": "cta", "text": "x"}', '{"task": "cat"}', "", '{"task": "same", "a": 1}']
    ),
)


@settings(**QUIET)
@given(st.lists(LINES, min_size=1, max_size=20))
def test_order_for_any_mix_of_tasks_and_bad_lines(done, capsys, lines):
    file = done / "mixed.jsonl"
    marked = [{**line, "n": n} if isinstance(line, dict) else line for n, line in enumerate(lines)]
    file.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in marked))
    numbered = [(number, line) for number, line in enumerate(marked, 1) if line]
    bad = [number for number, line in numbered if isinstance(line, str)]
    code, found, reported = predict(capsys, done / "out", file, "--on-error", "skip")
    assert code == (2 if not numbered else 1 if bad else 0)
    assert [row.get("line", row.get("task")) for row in found] == [
        number if number in bad else line["task"] for number, line in numbered
    ]
    assert [line for line in reported.splitlines() if f"{file}, line " in line] == [
        line for number in bad for line in reported.splitlines() if f"{file}, line {number}:" in line
    ]
    assert (f"{len(bad)} of {len(numbered)} rows could not be read" in reported) == bool(bad)
    fine = [line for _, line in numbered if not isinstance(line, str)]
    if fine:
        write_rows(file, fine)
        assert_near(predict(capsys, done / "out", file)[1], [row for row in found if "task" in row], 2e-4)


def test_stopping_at_a_bad_line_keeps_the_answers_before_it(done, capsys):
    good = [{"task": "cat", "text": "a cat"}] * 7
    file = write_rows(done / "stop.jsonl", [*good, {"task": "cat"}, *good])
    code, found, reported = predict(capsys, done / "out", file)
    assert (code, len(found)) == (2, 7)
    assert f"{file}, line 8: task 'cat' takes one text; 'text' is missing" in reported
    assert "--on-error skip" in reported
    for name in ("stop.out.jsonl", "stop.out.csv"):
        assert predict(capsys, done / "out", file, "--out", done / name)[:2] == (2, [])
        assert len((done / name).read_text().splitlines()) == 7 + name.endswith(".csv")
    # nothing was answered: an older file stays
    write_rows(file, [{"task": "cat"}])
    assert predict(capsys, done / "out", file, "--out", done / "stop.out.jsonl")[0] == 2
    assert len((done / "stop.out.jsonl").read_text().splitlines()) == 7
    assert not [path for path in done.iterdir() if path.name.startswith(".stop")]


def test_texts_of_the_command_line(done, capsys):
    out = done / "out"
    code, found, _ = predict(capsys, out, "--task", "cat", "--text", "a cat", "--text", "the dog")
    file = done / "lines.txt"
    file.write_text("a cat\n\nthe dog\n")
    assert (code, found) == predict(capsys, out, file, "--task", "cat")[:2]
    assert [row["task"] for row in found] == ["cat", "cat"]
    code, pair, _ = predict(capsys, out, "--task", "same", "--text", "a cat", "--text2", "the dog")
    file.write_text("a cat\tthe dog\n")
    assert (code, pair) == predict(capsys, out, file, "--task", "same")[:2]
    code, many, _ = predict(capsys, out, "--all", "--text", "a cat")
    assert (code, list(many[0])) == (0, ["cat", "count"])
    for wrong, message in {
        ("--text", "x", "y.jsonl"): "found both a FILE and --text",
        (): "found neither a FILE nor --text",
        ("--workers", "2", "--text", "x"): "--workers 2 is for files; found none: leave --workers out",
        ("--on", "ray", "--text", "x"): "--on ray is for files; found none: leave --on out",
        ("--text", "x"): 'expected an object with "task", or --task NAME',
        ("--task", "cta", "--text", "x"): "did you mean 'cat'?",
        ("--task", "same", "--text", "x"): "the command line, --text 1: task 'same' takes a pair of texts",
        ("--task", "same", "--text", "x", "--text2", "y", "--text2", "z"): "found 1 --text and 2 --text2",
        ("--task", "same", "--text2", "y", "y.jsonl"): "found --text2 without --text",
        ("--task", "cat", "--all", "--text", "x"): "found both --task and --all",
    }.items():
        code, found, reported = predict(capsys, out, *wrong)
        assert (code, found) == (2, [])
        assert message in reported


def test_standard_input(done, capsys, monkeypatch):
    out = done / "out"
    texts = predict(capsys, out, piped(monkeypatch, b"a cat\n\nthe dog\n"), "--task", "cat")
    assert texts[:2] == predict(capsys, out, "--task", "cat", "--text", "a cat", "--text", "the dog")[:2]
    lines = b'{"text": "a cat"}\n{"text": "the dog"}\n'
    assert (
        predict(capsys, out, piped(monkeypatch, lines), "--task", "cat", "--format", "jsonl")[:2] == texts[:2]
    )
    # without --format the first line decides, and a note says so
    code, found, reported = predict(capsys, out, piped(monkeypatch, lines), "--task", "cat")
    assert (code, found) == texts[:2]
    assert "note: standard input: its first line is a JSON object" in reported
    code, found, reported = predict(capsys, out, piped(monkeypatch, b""), "--task", "cat")
    assert (code, found) == (2, [])
    assert "standard input has no line to predict" in reported
    code, _, reported = predict(capsys, out, piped(monkeypatch, b"x"), "--task", "cat", "--format", "csv")
    assert code == 2
    assert "write csv to a file" in reported


def test_columns(done, capsys):
    out = done / "out"
    rows = [{"Review": "a cat", "Other": "the dog", "key": 7}, {"Review": "the bird", "Other": "x", "key": 8}]
    file = write_table(done / "columns.csv", rows)
    expected = predict(capsys, out, "--task", "cat", "--text", "a cat", "--text", "the bird")[:2]
    assert predict(capsys, out, file, "--task", "cat", "--texts", "Review")[:2] == expected
    pair = predict(
        capsys, out, file, "--task", "same", "--texts", "Review,Other", "--with-input", "--id", "key"
    )[1]
    assert pair[0]["id"] == "7"
    assert pair[0]["input"] == {"Review": "a cat", "Other": "the dog", "key": "7"}
    assert list(pair[0])[:3] == ["id", "input", "task"]
    assert list(predict(capsys, out, file, "--all", "--texts", "Other")[1][0]) == ["cat", "count"]
    for arguments, message in {
        ("--task", "cat"): "column 'text': there is no such column",
        ("--task", "cat", "--texts", "review"): "did you mean 'Review'?",
        ("--task", "cat", "--texts", "Review,Other"): "task 'cat' takes one text",
        ("--task", "cat", "--texts", "Review", "--id", "kye"): "did you mean 'key'?",
        (): "there is no column 'task'",
    }.items():
        code, found, reported = predict(capsys, out, file, *arguments)
        assert (code, found) == (2, [])
        assert message in reported


def test_tables_hold_what_the_lines_hold(done, capsys):
    rows = [
        {"task": "cat", "text": "a cat", "n": 1},
        {"task": "same", "a": "x", "b": "y", "n": 2},
        {"task": "count", "n": 3},
        {"task": "count", "text": "the dog", "n": 4},
    ]
    file = write_rows(done / "tables.jsonl", rows)
    arguments = (done / "out", file, "--id", "n", "--on-error", "skip")
    code, lines, _ = predict(capsys, *arguments)
    assert code == 1
    for name in ("t.csv", "t.tsv", "t.parquet", "t.jsonl", "t.jsonl.gz", "t.csv.gz"):
        assert predict(capsys, *arguments, "--out", done / name)[:2] == (1, [])
    for name in ("t.jsonl", "t.jsonl.gz"):
        data = (done / name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        assert [json.loads(line) for line in text.splitlines()] == lines
    table = pq.read_table(done / "t.parquet").to_pylist()
    columns = list(table[0])
    assert columns[:3] == ["id", "task", "label"]
    assert [row["id"] for row in table] == [1, 2, 3, 4]
    assert table[0]["probabilities.yes"] == lines[0]["probabilities"]["yes"]
    assert table[2]["error"] == lines[2]["error"]
    assert table[1]["value"] is None
    for name, delimiter in (("t.csv", ","), ("t.tsv", "\t")):
        with (done / name).open(newline="") as stream_:
            cells = list(csv.DictReader(stream_, delimiter=delimiter))
        assert cells == [{c: "" if row[c] is None else str(row[c]) for c in columns} for row in table]
    assert gzip.decompress((done / "t.csv.gz").read_bytes()) == (done / "t.csv").read_bytes()
    assert not [path for path in done.iterdir() if path.name.startswith(".t.")]


def test_digits(done, capsys):
    asked = (done / "out", "--task", "cat", "--text", "a cat")
    exact = predict(capsys, *asked, "--digits", "17")[1][0]["probabilities"]
    assert len(repr(exact["yes"])) > 10
    for digits, arguments in ((4, ()), (2, ("--digits", "2"))):
        found = predict(capsys, *asked, *arguments)[1][0]["probabilities"]
        assert found == {name: round(p, digits) for name, p in exact.items()}


def test_a_file_that_was_trained_on_is_read_as_it_is(done, capsys):
    """The run knows its task and its columns; a bundle alone needs the task."""
    for task in ("cat", "same", "count"):
        file = done / f"{task}.train.jsonl"
        code, found, reported = predict(capsys, done / "out", file)
        assert (code, {row["task"] for row in found}) == (0, {task})
        assert len(found) == len(file.read_text().splitlines())
        assert f"is a file of task '{task}'" in reported
        assert predict(capsys, done / "out" / "bundle", file, "--task", task)[:2] == (code, found)
    assert predict(capsys, done / "out" / "bundle", file)[0] == 2


def test_a_device_is_written_and_not_replaced(done, capsys):
    asked = ["predict", str(done / "out"), "--task", "cat", "--text", "a cat", "--out", os.devnull]
    assert run(asked) == 0
    assert not os.path.isfile(os.devnull)


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly_and_answers_come_before_the_end_of_the_input(done):
    """`weft predict … - | head -1`: the first answer is there while more lines could come."""
    call = [sys.executable, "-m", "weft", "predict", str(done / "out"), "-", "--task", "cat"]
    with subprocess.Popen(
        call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdin.write(b"a cat\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["task"] == "cat"
        child.stdout.close()
        child.stdin.write(b"the dog\n" * 3)
        child.stdin.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


def test_an_interrupted_call_keeps_what_was_written(done, capsys, monkeypatch):
    from weft.workflows import prediction_output

    file = write_rows(done / "many.jsonl", [{"task": "cat", "text": "a cat"}] * 20)
    original = prediction_output._Atomic.write
    calls = []

    def write(self, rows):
        original(self, rows)
        calls.append(len(rows))
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(prediction_output._Atomic, "write", write)
    code, _, reported = predict(capsys, done / "out", file, "--out", done / "kept.csv")
    assert code == 130
    assert "stopped" in reported
    assert len((done / "kept.csv").read_text().splitlines()) == 1 + 2 + 4


@pytest.mark.slow
def test_memory_over_300_000_lines(done, tmp_path):
    """300,000 lines take about as much memory as 2,000: a list of all answers alone would take 200 MB."""
    script = (
        "import resource, sys; from weft.cli import run; code = run(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
    )
    most = {}
    for count in (2_000, 300_000):
        file = tmp_path / f"{count}.jsonl"
        with file.open("w") as lines:
            for number in range(count):
                task = ("cat", "count")[number % 2]
                lines.write(
                    f'{{"task": "{task}", "id": {number}, "text": "{" ".join(WORDS[: number % 7 + 1])}"}}\n'
                )
        out = tmp_path / f"{count}.out.jsonl"
        call = [
            sys.executable,
            "-c",
            script,
            "predict",
            str(done / "out"),
            str(file),
            "--id",
            "id",
            "--out",
            str(out),
        ]
        ended = subprocess.run(call, capture_output=True, text=True, check=True)
        most[count] = int(ended.stdout) / 1024
        with out.open() as lines:
            assert [json.loads(line)["id"] for line in lines] == list(range(count))
    assert most[300_000] < most[2_000] + 60
