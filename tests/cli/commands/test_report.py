"""`weft report` on the command line, on a run that was really trained."""

from __future__ import annotations

import json

import pytest

from tests.support.outline import check_page
from tests.support.report_runs import write_run_folder
from tests.support.tiny_run import write_run
from weft import cli
from weft.errors import WeftError
from weft.training.run.folder import check_replaceable


def test_a_trained_run_has_a_page(tmp_path, capsys):
    run_file = write_run(tmp_path, steps=6, evaluate_every=3, measure_uncertainty=3)
    assert cli.run(["train", str(run_file), "--out", str(tmp_path / "out"), "--device", "cpu"]) == 0
    capsys.readouterr()
    assert cli.run(["report", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "report.html"
    assert f"written: {page}" in capsys.readouterr().out
    outline = check_page(page.read_text())
    texts = " ".join(text for _, text in outline.texts)
    # the log of a new run names the parameters and the machine
    for text in (
        "Ledger",
        "trained, without heads",
        "Machine and versions",
        "transformers",
        "What the bundle holds",
    ):
        assert text in texts, text


def test_a_page_does_not_hinder_the_next_run(tmp_path):
    """What a report adds to a folder belongs to the run: `overwrite` may replace it."""
    folder = write_run_folder(tmp_path / "r")
    assert cli.run(["report", str(folder)]) == 0
    for name in ("similarity.json", "covariance.json"):
        (folder / name).write_text("{}")
    check_replaceable(folder)
    (folder / "mine.txt").write_text("x")
    with pytest.raises(WeftError, match=r"holds more than a run: mine\.txt"):
        check_replaceable(folder)


def test_json_names_the_file(tmp_path, capsys):
    folder = write_run_folder(tmp_path / "r")
    page = tmp_path / "page.html"
    assert cli.run(["report", str(folder), "--out", str(page), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"file": str(page), "bytes": page.stat().st_size}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no folder nothing"),
        (["r", "r"], "name its file: --out report.html"),
        (["r", "--out", "no/page.html"], "--out no/page.html: there is no folder no"),
        (["empty"], "holds neither a run nor a comparison"),
    ],
)
def test_mistakes(tmp_path, monkeypatch, capsys, words, message):
    write_run_folder(tmp_path / "r")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.run(["report", *words]) == 2
    assert message in capsys.readouterr().err
