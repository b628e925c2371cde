"""`weft show composition`: the shares of tasks over time."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.support.outline import HOSTILE, check_page
from tests.support.report_runs import TASKS, evaluation, events, write_run_folder
from weft import cli

SVG = "{http://www.w3.org/2000/svg}"


def test_shares_of_the_whole_run_its_beginning_and_its_end(tmp_path, capsys):
    lines = [events(TASKS)[0], evaluation(50, TASKS), evaluation(100, TASKS)]
    folder = write_run_folder(tmp_path / "r", lines=lines)
    assert cli.run(["show", "composition", str(folder)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].split() == ["cola", "29.0%", "27.8%", "30.3%"]
    assert cli.run(["show", "composition", str(folder), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [(i["start"], i["stop"]) for i in facts["intervals"]] == [(0, 50), (50, 100)]
    assert sum(facts["mean"]) == pytest.approx(1)
    assert facts["chosen_by_model"] is False


def test_what_the_model_chose(tmp_path, capsys):
    chosen = [{"event": "chosen", "step": n, "task": [0, 0, 1, 2]} for n in range(10)]
    folder = write_run_folder(tmp_path / "r", lines=[events(TASKS)[0], *chosen])
    assert cli.run(["show", "composition", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "examples that the model chose" in out
    assert out.splitlines()[2].split() == ["cola", "50.0%", "50.0%", "50.0%"]


@pytest.mark.parametrize("tasks", [TASKS, HOSTILE])
def test_pictures(tmp_path, tasks):
    folder = write_run_folder(tmp_path / "r", tasks)
    for ending in ("svg", "html"):
        assert cli.run(["show", "composition", str(folder), "--plot", str(tmp_path / f"c.{ending}")]) == 0
    tree = ElementTree.fromstring((tmp_path / "c.svg").read_text())
    areas = [e for e in tree.iter(f"{SVG}path") if e.get("class") == "area"]
    assert len(areas) == len(tasks)
    assert len(check_page((tmp_path / "c.html").read_text()).named("figure")) == 1


def test_a_log_without_counts(tmp_path, capsys):
    folder = write_run_folder(tmp_path / "r", lines=[events(TASKS)[0]])
    assert cli.run(["show", "composition", str(folder)]) == 2
    assert "train with train.evaluate_every set" in capsys.readouterr().err
