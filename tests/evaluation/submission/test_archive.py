"""Zip files that hold far more than a submission."""

from __future__ import annotations

import json
import zipfile

import pytest

from weft.evaluation.submission import BENCHMARKS
from weft.evaluation.submission.archive import LARGEST, MOST


def problems(tmp_path, name, files):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return [str(problem) for problem in BENCHMARKS[name].check(path)]


@pytest.mark.parametrize("name", ["glue", "superglue"])
def test_millions_of_empty_lines_are_one_problem(tmp_path, name):
    form = BENCHMARKS[name].forms[0]
    told = problems(tmp_path, name, {form.file: b"\n" * 10**6})
    assert [line for line in told if form.file in line] == [
        f"{tmp_path / 'x.zip'}: {form.file}: found 1,000,000 lines; expected about {form.rows:,}"
    ]


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    told = problems(tmp_path, "glue", {"CoLA.tsv": b"\n" * (LARGEST + 1)})
    assert f"{tmp_path / 'x.zip'}: CoLA.tsv: the file is larger than 16,777,216 bytes" in told


def test_a_zip_of_very_many_files(tmp_path):
    told = problems(tmp_path, "glue", {f"{number}.tsv": b"" for number in range(MOST + 1)})
    assert told == [f"{tmp_path / 'x.zip'}: found 1,001 files; expected 11"]


@pytest.mark.parametrize("line", ["[" * 10**6, '{"idx":' * 10**5])
def test_deep_json(tmp_path, line):
    told = problems(tmp_path, "superglue", {"CB.jsonl": line})
    assert any("line 1" in problem and "expected JSON" in problem for problem in told)


def test_one_line_with_very_many_mistakes(tmp_path):
    answers = [{"idx": 10**6, "label": 5}] * 100_000
    line = json.dumps({"idx": 0, "passage": {"questions": [{"idx": 0, "answers": answers}]}})
    told = problems(tmp_path, "superglue", {"MultiRC.jsonl": line})
    assert len(told) < 21_000
