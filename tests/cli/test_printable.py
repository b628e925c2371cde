"""Labels, columns and names of files do not reach the terminal as they are, if it would obey them."""

from __future__ import annotations

import json
import re
import zipfile

import pytest

from tests.support.tiny_run import save_encoder
from weft.cli import run

ESCAPE = "\x1b[2J"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def assert_harmless(capsys, code, *arguments):
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == code
    printed = capsys.readouterr()
    assert "\\x1b[2J" in printed.out + printed.err  # it is shown, as an escape
    assert not CONTROL.search(printed.out + printed.err)


def run_file(folder, encoder, labels):
    rows = "".join(f"the cat,{label}\n" for label in labels * 8)
    (folder / "a.csv").write_text(f"text,label\n{rows}", "utf-8")
    (folder / "run.yaml").write_text(
        f"encoder: {encoder}\nmethod: frozen\ntasks: {{a: {{train: a.csv, validation: a.csv}}}}\n"
        "train: {steps: 1, max_length: 24}\n",
        "utf-8",
    )
    return folder / "run.yaml"


def test_labels_in_a_report(tmp_path, capsys, encoder):
    file = run_file(tmp_path, encoder, [f"no{ESCAPE}", "yes"])
    assert_harmless(capsys, 0, "check", file, "--no-estimate")


def test_columns_in_an_error(tmp_path, capsys, encoder):
    file = run_file(tmp_path, encoder, ["no", "yes"])
    (tmp_path / "a.csv").write_text(f"{ESCAPE},label\na,no\nb,yes\n", "utf-8")
    assert_harmless(capsys, 2, "train", file, "--out", tmp_path / "out")


def test_columns_and_labels_of_a_draft(tmp_path, capsys):
    rows = "".join(f"the old cat number {n},{ESCAPE}{n % 2}\n" for n in range(40))
    (tmp_path / "a.csv").write_text(f"comment{ESCAPE},label\n{rows}", "utf-8")
    assert_harmless(capsys, 0, "new", tmp_path / "a.csv", "--out", tmp_path / "run.yaml")


def test_predictions_stay_json(tmp_path, capsys, encoder):
    """JSON escapes the first 32 characters itself; others are escaped on the way to the terminal."""
    file = run_file(tmp_path, encoder, ["no", "yes"])
    assert run(["train", str(file), "--out", str(tmp_path / "run")]) == 0
    text = "the \x1b \x7f \x9b \u2028 \u202e \ufeff cat"
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": text}) + "\n")
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "run"), str(tmp_path / "rows.jsonl"), "--with-input"]) == 0
    printed = capsys.readouterr().out
    assert not CONTROL.search(printed)
    assert json.loads(printed)["input"]["text"] == text


def test_names_in_a_zip(tmp_path, capsys):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(f"{ESCAPE}.tsv", "x")
    assert_harmless(capsys, 2, "submit", tmp_path / "a.zip", "--to", "glue", "--check")


def test_a_file_whose_name_is_no_utf8(tmp_path, capsys):
    """Python holds such a byte as half a surrogate pair, which standard output cannot encode."""
    file = tmp_path / "caf\udce9.csv"
    file.write_text("text,label\n" + "".join(f"the cat {n},{n % 2}\n" for n in range(30)))
    assert run(["new", str(file), "--out", str(tmp_path / "run.yaml"), "--task", f"a={file}"]) in (0, 2)
    printed = capsys.readouterr()
    assert "\udce9" not in printed.out + printed.err
