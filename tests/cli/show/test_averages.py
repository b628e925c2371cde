"""`weft show averages`, in this process."""

from __future__ import annotations

import json

import pytest

from tests.support.tiny_run import assert_refused
from weft.cli import run

GLUE = {
    "cola": {"matthews": 0.531},
    "mnli": {"accuracy": 0.859, "accuracy_mm": 0.858},
    "mrpc": {"f1": 0.886, "accuracy": 0.5},
    "qnli": {"accuracy": 0.905},
    "qqp": {"f1": 0.692, "accuracy": 0.5},
    "rte": {"accuracy": 0.764},
    "sst2": {"accuracy": 0.932},
    "stsb": {"pearson": 0.5, "spearman": 0.853},
}


def write(folder, tasks, **more):
    folder.mkdir()
    (folder / "metrics.json").write_text(json.dumps({"tasks": tasks, **more}), encoding="utf-8")
    return folder


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "whole", GLUE, split="validation", rows={"cola": 1043, "qqp": 20212, "mine": 3})
    less = {name: own for name, own in GLUE.items() if name not in ("qqp", "cola")}
    write(tmp_path / "less", less, split="test")
    return tmp_path


def said(capsys, *arguments):
    capsys.readouterr()
    code = run(["show", "averages", *map(str, arguments)])
    return code, capsys.readouterr()


def test_json(runs, capsys):
    code, told = said(capsys, "whole", "less", "--json")
    assert code == 0
    found = json.loads(told.out)
    assert list(found) == ["whole", "less"]
    whole, less = found["whole"], found["less"]
    assert list(whole["averages"]) == ["pals_dev", "glue9", "superglue", "mrqa", "ner", "ca_mtl24"]
    assert round(100 * whole["averages"]["glue9"]["value"], 1) == 80.9
    assert whole["averages"]["glue9"]["parts"]["qqp f1"] == 0.692
    assert whole["other_rows"] == {"qqp": {"rows": 20212, "official": 40430}}
    nine = less["averages"]["glue9"]
    assert (nine["value"], nine["values"], nine["of"]) == (None, 7, 9)
    assert nine["missing"] == ["qqp f1", "cola matthews"]
    kept = (0.859, 0.858, 0.886, 0.905, 0.764, 0.932, 0.853)
    assert nine["partial"] == pytest.approx(sum(kept) / 7)
    assert less["averages"]["superglue"]["values"] == 1  # rte is a task of both


def test_table(runs, capsys):
    code, told = said(capsys, "whole", "less")
    assert code == 0
    lines = [line.split() for line in told.out.splitlines()]
    assert ["average", "task", "and", "metric", "whole", "less"] in lines
    assert ["glue9", "mnli", "accuracy", "85.9", "85.9"] in lines
    assert ["mnli", "accuracy_mm", "85.8", "85.8"] in lines
    assert ["cola", "matthews", "53.1", "-"] in lines
    assert ["average", "80.9", "(86.5", "over", "7", "of", "9)"] in lines
    assert "note: whole: qqp has 20,212 rows; the official validation set has 40,430" in told.err
    assert "note: less: scores of the split 'test'" in told.err
    assert "note: less: glue9 is not reported: qqp f1, cola matthews" in told.err
    assert "whole: glue9" not in told.err
    assert "ca_mtl24" not in told.out  # rte alone is no second group


def test_a_run_without_any_of_the_tasks(runs, capsys):
    write(runs / "other", {"cat": {"accuracy": 0.5}})
    code, told = said(capsys, "other")
    assert code == 0
    assert told.err == ""
    lines = [line.split() for line in told.out.splitlines()]
    assert ["all", "tasks", "cat", "accuracy", "50.0"] in lines
    assert ["average", "50.0"] in lines
    assert "glue9" not in told.out
    assert "-" not in [word for line in lines for word in line]


def test_tasks_of_ones_own_beside_those_of_a_paper(runs, capsys):
    write(runs / "both", {**GLUE, "mine": {"entity_f1": 0.6, "accuracy": 0.9}})
    code, told = said(capsys, "whole", "both")
    assert code == 0
    lines = [line.split() for line in told.out.splitlines()]
    assert ["average", "80.9", "80.9"] in lines
    assert ["mine", "entity_f1", "-", "60.0"] in lines
    firsts = [next(iter(metrics.values())) for metrics in GLUE.values()]
    means = [sum(firsts) / 8, (sum(firsts) + 0.6) / 9]
    assert ["average", *(f"{100 * mean:.1f}" for mean in means)] in lines
    capsys.readouterr()
    assert run(["show", "averages", "both", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["both"]["all_tasks"]
    assert facts["value"] == pytest.approx(means[1])
    assert facts["parts"]["mine entity_f1"] == 0.6


def test_the_groups_of_table_3_4(runs, capsys):
    more = {"superglue_rte": {"accuracy": 0.5}, "wnut17": {"entity_f1": 0.25, "surface_f1": 0.9}}
    write(runs / "groups", {**GLUE, **more})
    code, told = said(capsys, "groups")
    assert code == 0
    lines = [line.split() for line in told.out.splitlines()]
    assert ["ner", "wnut17", "entity_f1", "25.0"] in lines
    assert ["rte", "accuracy", "50.0"] in lines  # SuperGLUE's
    assert ["rte", "accuracy", "76.4"] in lines  # GLUE's
    nine = (0.531, 0.859, 0.858, 0.886, 0.905, 0.692, 0.764, 0.932, 0.853)
    mean = f"({100 * (sum(nine) + 0.5 + 0.25) / 11:.1f}"
    words = ["ca_mtl24", "glue9", "+", "superglue", "+", "mrqa", "+", "ner"]
    assert [*words, mean, "over", "11", "of", "24)"] in lines
    assert "all tasks" not in told.out  # every task is in an average
    assert "ca_mtl24 is not reported" not in told.err


def test_the_test_split_and_halves(runs, capsys):
    rows = {"cola": 522, "mnli": 4908, "mrpc": 204, "qnli": 2731, "qqp": 20215, "rte": 138, "sst2": 436}
    contents = {"tasks": GLUE, "split": "test", "rows": {**rows, "stsb": 750}}
    (runs / "whole" / "metrics.test.json").write_text(json.dumps(contents), encoding="utf-8")
    code, told = said(capsys, "whole", "--split", "test")
    assert code == 0
    notes = told.err.splitlines()
    assert "note: whole: scores of the split 'test'" in notes
    assert any("half of the official validation set, as in MORRIS's Table 2" in note for note in notes)
    assert "the official validation set has" not in told.err


CALLS = {
    "no test scores": (["whole", "--split", "test"], ["weft evaluate whole --split test"]),
    "unknown split": (["whole", "--split", "train"], ["split 'train': no metrics of it are stored"]),
    "nowhere": (["nowhere"], ["nowhere: there is no such folder"]),
    "no run": (["."], [". holds no run"]),
    "twice": (["whole", "whole"], ["whole is listed twice"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case, runs, capsys):
    arguments, messages = CALLS[case]
    assert_refused(*said(capsys, *arguments), messages)
