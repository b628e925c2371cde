"""`weft predict` with several files, without processes: what is written, skipped, repeated and reported."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.corpora import BAD, InProcess, lines_of, write_bundle, write_corpus
from tests.support.predicting import predict
from weft.utils.temporary import is_leftover_name

SIZES = {"a.jsonl": 9, "b.csv": 7, "c.parquet": 5, "d.tsv": 3}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    write_bundle(folder)
    return folder


@pytest.fixture
def crew(monkeypatch):
    crews: list[InProcess] = []

    def start(deaths=None):
        monkeypatch.setattr(
            "weft.corpora.predict.local_crew", lambda workers: crews.append(InProcess(deaths)) or crews[-1]
        )
        return crews

    start()
    return start


def ran(crews):
    return sorted(name for one in crews for name in one.ran)


def test_each_file_becomes_one_of_its_name_and_format(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", SIZES)
    out = tmp_path / "out"
    assert predict(capsys, home / "bundle", *files, "--out", out, "--id", "n")[0] == 0
    assert sorted(file.name for file in out.iterdir() if not file.name.startswith(".")) == sorted(SIZES)
    for file in files:
        single = tmp_path / f"single{file.suffix}"
        assert predict(capsys, home / "bundle", file, "--out", single, "--id", "n")[0] == 0
        assert (out / file.name).read_bytes() == single.read_bytes()


def test_columns_are_kept_on_request(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", SIZES)
    out = tmp_path / "out"
    assert predict(capsys, home / "bundle", *files, "--out", out, "--keep", "n,more")[0] == 0
    assert [row["input"] for row in lines_of(out / "a.jsonl")] == [{"n": n, "more": "x"} for n in range(9)]
    with (out / "b.csv").open() as file:
        assert [row["input.n"] for row in csv.DictReader(file)] == [str(n) for n in range(9, 16)]
    assert pq.read_table(out / "c.parquet")["input.n"].to_pylist() == list(range(16, 21))
    code, rows, _ = predict(capsys, home / "bundle", files[0], "--keep", "all")
    assert (code, set(rows[0]["input"])) == (0, {"n", "text", "more"})
    code, _, told = predict(capsys, home / "bundle", *files[1:], "--out", out, "--keep", "nn")
    assert (code, "'nn'" in told or "nn" in told, "no such column" in told) == (2, True, True)


def test_bad_rows_are_in_a_file_of_their_own(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 4, "b.jsonl": 2})
    lines = files[0].read_text().splitlines()
    files[0].write_text("\n".join([lines[0], BAD, lines[1], '{"n": 7}', *lines[2:]]) + "\n")
    out = tmp_path / "out"
    code, _, told = predict(capsys, home / "bundle", *files, "--out", out, "--id", "n")
    assert (code, "2 of 8 rows could not be read" in told) == (1, True)
    assert [row["id"] for row in lines_of(out / "a.jsonl")] == [0, 1, 2, 3]
    errors = lines_of(out / "a.jsonl.errors.jsonl")
    assert [(row["file"], row["line"]) for row in errors] == [(str(files[0]), 2), (str(files[0]), 4)]
    assert "not JSON" in errors[0]["error"]
    assert errors[1]["id"] == 7
    assert not (out / "b.jsonl.errors.jsonl").exists()
    # the exit code is that of the rows, not of this call
    assert predict(capsys, home / "bundle", *files, "--out", out, "--id", "n")[0] == 1
    # without bad rows, the file of errors goes away
    files[0].write_text("\n".join(lines) + "\n")
    assert predict(capsys, home / "bundle", *files, "--out", out, "--id", "n")[0] == 0
    assert not (out / "a.jsonl.errors.jsonl").exists()


def test_a_file_of_errors_that_is_not_ours_is_neither_replaced_nor_removed(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 4})
    good = files[0].read_text()
    out = tmp_path / "out"
    out.mkdir()
    mine = out / "a.jsonl.errors.jsonl"
    mine.write_text("precious")
    for content in (good, good + BAD + "\n"):
        files[0].write_text(content)
        code, _, told = predict(capsys, home / "bundle", *files, "--out", out)
        assert (code, f"{mine} exists, and no record in" in told) == (2, True)
        assert (mine.read_text(), (out / "a.jsonl").exists()) == ("precious", False)
    mine.unlink()
    assert predict(capsys, home / "bundle", *files, "--out", out)[0] == 1
    assert len(lines_of(mine)) == 1
    files[0].write_text(good)  # now there are no bad rows, and the file is ours
    assert predict(capsys, home / "bundle", *files, "--out", out)[0] == 0
    assert not mine.exists()
    mine.write_text("precious")
    assert predict(capsys, home / "bundle", *files, "--out", out)[0] == 0  # nothing is to do
    files[0].write_text(good * 2)
    assert predict(capsys, home / "bundle", *files, "--out", out)[0] == 2
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("name", ["a.jsonl.json", "a.jsonl.errors.jsonl", "a.jsonl"])
def test_a_call_killed_while_it_writes_can_be_repeated(home, tmp_path, capsys, crew, monkeypatch, name):
    """The three files get their names one after another; the call may be killed before any of them."""
    files = write_corpus(tmp_path / "in", {"a.jsonl": 4})
    files[0].write_text(files[0].read_text() + BAD + "\n")
    out = tmp_path / "out"
    out.mkdir()
    replace = os.replace

    class Killed(BaseException):
        pass

    def killed(source, target):
        if Path(target).name == name:
            raise Killed
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(Killed):
            predict(capsys, home / "bundle", *files, "--out", out)
    assert not (out / "a.jsonl").exists()
    assert predict(capsys, home / "bundle", *files, "--out", out)[0] == 1
    assert (len(lines_of(out / "a.jsonl")), len(lines_of(out / "a.jsonl.errors.jsonl"))) == (4, 1)


def test_a_mistake_in_all_rows_is_reported_before_a_worker_starts(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 30, "b.jsonl": 3})
    crews = crew()
    crews.clear()
    code, _, told = predict(capsys, home / "bundle", *files, "--out", tmp_path / "out", "--texts", "wrong")
    assert (code, "a.jsonl, line 1: --texts: 'wrong' is missing" in told, crews) == (2, True, [])
    code, _, told = predict(capsys, home / "bundle", *files, "--out", tmp_path / "out", "--id", "nope")
    assert (code, "--id nope" in told, crews) == (2, True, [])
    # the rows of one file are good
    files[0].write_text("{}\n" * 30)
    assert predict(capsys, home / "bundle", *files, "--out", tmp_path / "out")[0] == 1


def test_a_missing_column_is_named_without_advice_about_texts(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.csv": 2, "b.csv": 2})
    code, _, told = predict(capsys, home / "bundle", *files, "--out", tmp_path / "out", "--id", "nope")
    assert (code, "'nope'" in told, "--texts" in told) == (2, True, False)


def test_a_bad_row_ends_the_command_if_it_should(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 4})
    files[0].write_text(files[0].read_text() + BAD + "\n")
    out = tmp_path / "out"
    out.mkdir()
    code, _, told = predict(capsys, home / "bundle", *files, "--out", out, "--on-error", "stop")
    assert (code, "not JSON" in told, (out / "a.jsonl").exists()) == (2, True, False)


def test_finished_files_are_skipped_and_changes_are_noticed(home, tmp_path, capsys, crew):
    bundle = shutil.copytree(home / "bundle", tmp_path / "bundle")
    files = write_corpus(tmp_path / "in", {"a.jsonl": 4, "b.jsonl": 3})
    out = tmp_path / "out"

    def again(*options):
        crews = crew()
        crews.clear()
        code, _, told = predict(capsys, bundle, *files, "--out", out, "--encoder", home / "encoder", *options)
        assert code == 0
        return ran(crews), told

    assert again()[0] == ["a.jsonl", "b.jsonl"]
    before = {file.name: file.read_bytes() for file in out.glob("*.jsonl")}
    found, told = again()
    assert (found, "2 of 2 files are finished" in told) == ([], True)
    files[0].touch()  # the same content
    assert again()[0] == []
    files[0].write_text(files[0].read_text() * 2)
    found, told = again()
    assert (found, "before the input changed" in told) == (["a.jsonl"], True)
    assert len(lines_of(out / "a.jsonl")) == 8
    (out / "b.jsonl").unlink()
    found, told = again()
    assert (found, "b.jsonl was removed, or not complete: predicting again" in told) == (["b.jsonl"], True)
    (out / "b.jsonl").write_text("edited\n")
    found, told = again()
    assert (found, "b.jsonl was edited since it was predicted" in told) == (["b.jsonl"], True)
    (out / ".weft-predictions/b.jsonl.json").write_text("{")
    found, told = again()
    assert (found, "b.jsonl was predicted, but its record is damaged" in told) == (["b.jsonl"], True)
    assert (out / "b.jsonl").read_bytes() == before["b.jsonl"]
    found, told = again("--digits", "2")
    assert (found, "different options" in told) == (["a.jsonl", "b.jsonl"], True)
    shutil.rmtree(bundle)
    shutil.copytree(write_bundle(home, seed=2), bundle)
    write_bundle(home, seed=1)
    assert again("--digits", "2")[0] == ["a.jsonl", "b.jsonl"]
    assert not [file for file in out.rglob("*") if is_leftover_name(file.name) and file.suffix != ".lock"]


def test_a_file_whose_worker_dies_is_predicted_again(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 4, "b.jsonl": 3})
    crews = crew({"a.jsonl": 2})
    assert predict(capsys, home / "bundle", *files, "--out", tmp_path / "out", "--workers", "2")[0] == 0
    assert ran(crews) == ["a.jsonl"] * 3 + ["b.jsonl"]
    crews = crew({"a.jsonl": 9})
    code, _, told = predict(capsys, home / "bundle", *files, "--out", tmp_path / "new")
    assert (code, "ended 3 times" in told) == (1, True)
    assert "1 file could not be predicted" in told
    assert told.count("the process ended with -9; the file is begun again") == 2
    assert [file.name for file in (tmp_path / "new").glob("*.jsonl")] == ["b.jsonl"]
    crew()
    assert predict(capsys, home / "bundle", *files, "--out", tmp_path / "new")[0] == 0


def test_a_file_that_cannot_be_read_stops_no_other(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.csv": 4, "b.csv": 3})
    files[1].write_text("wrong,columns\n1,2\n")
    code, _, told = predict(capsys, home / "bundle", *files, "--out", tmp_path / "out")
    assert (code, "b.csv" in told, "no such column" in told) == (1, True, True)
    assert (tmp_path / "out" / "a.csv").exists()
    assert not (tmp_path / "out" / "b.csv").exists()


def test_an_output_that_stays_although_its_input_fails_now_is_named(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.csv": 4, "b.csv": 3})
    assert predict(capsys, home / "bundle", *files, "--out", tmp_path / "out")[0] == 0
    old = (tmp_path / "out" / "b.csv").read_bytes()
    files[1].write_text("wrong,columns\n1,2\n")
    code, _, told = predict(capsys, home / "bundle", *files, "--out", tmp_path / "out")
    assert (code, (tmp_path / "out" / "b.csv").read_bytes()) == (1, old)
    assert f"{tmp_path / 'out/b.csv'} is still there; it was predicted before the input changed" in told


def test_a_row_that_was_too_long_is_read_with_a_higher_limit(home, tmp_path, capsys, crew, monkeypatch):
    """As the row's message advises."""
    files = write_corpus(tmp_path / "in", {"a.jsonl": 3, "b.jsonl": 2})
    files[0].write_text(files[0].read_text() + json.dumps({"text": "a cat " * 40}) + "\n")
    monkeypatch.setenv("WEFT_MAX_CHARACTERS", "100")
    assert predict(capsys, home / "bundle", *files, "--out", tmp_path / "out")[0] == 1
    assert "WEFT_MAX_CHARACTERS" in lines_of(tmp_path / "out/a.jsonl.errors.jsonl")[0]["error"]
    monkeypatch.setenv("WEFT_MAX_CHARACTERS", "1000")
    assert predict(capsys, home / "bundle", *files, "--out", tmp_path / "out")[0] == 0
    assert len(lines_of(tmp_path / "out" / "a.jsonl")) == 4


def test_mistakes_are_reported_before_a_worker_starts(home, tmp_path, capsys, crew):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 2, "b.csv": 2, "c.csv": 2})
    other = write_corpus(tmp_path / "other", {"a.jsonl": 2})
    crews = crew()
    out = tmp_path / "out"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "a.jsonl").write_text("mine\n")
    for arguments, message in [
        (files, "found 3 files and no --out; expected --out FOLDER"),
        ([files[0], "--workers", "2"], "and no --out"),
        ([*files, "--out", tmp_path / "in"], "would replace"),
        ([*files, *other, "--out", out], "would both be written"),
        ([files[0], files[0], "--out", out], "found twice"),
        ([files[0], "-", "--out", out], "standard input"),
        (["-", "--workers", "2", "--out", out], "found - (standard input) together with"),
        ([files[0], tmp_path / "in", "--out", out], "found a folder"),
        ([files[0], tmp_path / "none.csv", "--out", out], "there is no such file"),
        ([tmp_path / "in" / "*.conll", "--out", out], "no file matches"),
        ([*files, "--out", files[0]], "found a file; expected a folder"),
        ([*files, "--out", out, "--task", "dog"], "no task 'dog'"),
        ([*files[1:], "--out", out, "--texts", "wrong"], "'wrong'"),
        ([*files, "--out", out, "--text", "x"], "leave --text out"),
        ([*files, "--out", out, "--on", "spark"], "--on spark: unknown; expected ray"),
        ([*files, "--out", out, "--address", "auto"], "--address needs --on ray"),
        ([files[0], other[0].parent / "a.*", "--out", foreign], "would both be written"),
        ([files[0], "--out", foreign], "no record in"),
    ]:
        code, rows, told = predict(capsys, home / "bundle", *arguments)
        assert (code, rows) == (2, []), told
        assert message in told or message.strip("'") in told, told
    assert crews == []
    assert (foreign / "a.jsonl").read_text() == "mine\n"


def test_a_quoted_pattern_and_files_of_text(home, tmp_path, capsys, crew):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "x.txt").write_text("the cat sees\na dog\n")
    empty = ("empty.jsonl", "empty.csv", "empty.tsv", "empty.txt")
    for name in empty:
        (folder / name).write_text("\n" if name == "empty.csv" else "")
    assert predict(capsys, home / "bundle", folder / "*", "--out", tmp_path / "out")[0] == 0
    assert len(lines_of(tmp_path / "out" / "x.txt.jsonl")) == 2
    for name in ("empty.jsonl", "empty.txt.jsonl"):
        assert (tmp_path / "out" / name).read_text() == ""
    for name in ("empty.csv", "empty.tsv"):
        header = (tmp_path / "out" / name).read_text().replace("\t", ",")
        assert header == "task,label,probabilities.no,probabilities.yes\n"
    stop = ("--out", tmp_path / "stop", "--on-error", "stop")
    assert predict(capsys, home / "bundle", folder / "*", *stop)[0] == 0
    for name in empty:
        code, _, told = predict(capsys, home / "bundle", folder / name)
        assert (code, "has no line to predict" in told) == (2, True)
    assert json.loads((tmp_path / "out/.weft-predictions/x.txt.jsonl.json").read_text())["answered"] == 2


def test_a_recursive_pattern_leaves_out_what_it_has_written(home, tmp_path, capsys, crew):
    write_corpus(tmp_path / "in", {"a.jsonl": 2})
    write_corpus(tmp_path / "in" / "more", {"b.jsonl": 2})
    pattern, out = tmp_path / "in" / "**" / "*.jsonl", tmp_path / "in" / "pred"
    assert predict(capsys, home / "bundle", pattern, "--out", out)[0] == 0
    code, _, told = predict(capsys, home / "bundle", pattern, "--out", out)
    assert (code, "2 of 2 files are finished" in told) == (0, True)
    assert f"also matches 2 files in {out}, the folder of the predictions: left out" in told
    code, _, told = predict(capsys, home / "bundle", tmp_path / "in" / "*.jsonl", "--out", tmp_path / "in")
    assert (code, "would replace" in told) == (2, True)
