"""Settings of heads that have no effect are mistakes, with the reason and what to set instead."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.tiny_run import save_encoder, write_rows, write_run
from weft.config import load_run, load_tasks
from weft.errors import WeftError

PAIR = {"texts": ["a", "b"], "train": "x.jsonl", "validation": "x.jsonl"}
TASKS = {
    "cat": {"labels": ["no", "yes"], "train": "x.jsonl", "validation": "x.jsonl"},
    "near": {"kind": "similarity", "range": [0, 5], **PAIR},
    "tags": {"kind": "tag", "labels": ["O", "B-x", "I-x"], "train": "x.jsonl", "validation": "x.jsonl"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    save_encoder(folder / "encoder")
    write_rows(folder / "x.jsonl", [{"text": "x", "label": "no"}])
    return folder


def load(folder, heads=None, **changes):
    """A run file of some of TASKS: those that `changes` names, with these settings."""
    tasks = {name: {**TASKS[name], **settings} for name, settings in changes.items()}
    run = {"encoder": "encoder", "tasks": tasks, **({"heads": heads} if heads else {})}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    return load_run(folder / "run.yaml")


WRONG = {
    "layers of a cosine": ({"near": {"layers": 2}}, None, "tasks.near.layers: layers: 2 has no effect"),
    "width of a cosine": ({"near": {"hidden": 9}}, None, "near compares by the cosine and has no head"),
    "pooler of a cosine": ({"near": {"pool": "task_pooler"}}, None, "the cosine reads cls, mean or pooler"),
    "pool of tags": (
        {"tags": {"pool": "mean"}},
        None,
        "heads of kind tag, as that of tags, read every",
    ),
    "width of one layer": ({"cat": {"hidden": 9}}, None, "the head of cat has one layer"),
    "pool for nobody": ({"tags": {}, "cat": {"pool": "cls"}}, {"pool": "mean"}, "heads.pool: mean has no"),
    "layers for nobody": ({"near": {}, "cat": {"layers": 1}}, {"layers": 2}, "heads.layers: 2 has no effect"),
    "width for nobody": ({"cat": {}}, {"hidden": 9}, "heads.hidden: 9 has no effect"),
    "dropout for nobody": ({"near": {}}, {"dropout": 0.3}, "heads.dropout: 0.3 has no effect: no task has a"),
    "start for nobody": ({"near": {}}, {"start": "zero"}, "heads.start: zero has no effect: no task has a"),
}


@pytest.mark.parametrize("case", WRONG)
def test_settings_without_effect_are_refused(case, folder):
    changes, heads, message = WRONG[case]
    with pytest.raises(WeftError, match=rf"has 1 mistake:\n  line \d+, (.|\n)*{re.escape(message)}"):
        load(folder, heads, **changes)


def test_settings_with_an_effect_are_accepted(folder):
    load(folder, {"layers": 2}, cat={"hidden": 9})
    assert load_tasks(folder / "run.yaml")[0].hidden == 9  # without the `heads` section
    load(folder, {"hidden": 9}, cat={"layers": 2})
    load(folder, {"pool": "mean", "dropout": 0.3, "start": "zero"}, near={}, cat={}, tags={})
    load(folder, None, near={"compare": "head", "layers": 2, "hidden": 9, "targets": "raw"})
    load(folder, None, near={"pool": "mean"})
    # defaults, as run.yaml holds them
    load(folder, {"pool": "auto", "dropout": 0.1, "layers": 1, "hidden": None, "start": "probe"}, near={})


def test_the_run_yaml_of_a_run_may_have_them(tmp_path):
    """weft.train writes the settings of the model, whatever its tasks use of them."""
    file = write_run(tmp_path)
    settings = yaml.safe_load(file.read_text())
    settings["heads"] = {"hidden": 9}
    file.write_text(yaml.safe_dump(settings))
    assert load_run(tmp_path).heads.hidden == 9
    with pytest.raises(WeftError, match=r"heads.hidden: 9 has no effect"):
        load_run(file)
    with pytest.raises(WeftError, match=r"command line, heads.pool: mean has no effect"):
        load_run(tmp_path, ["heads.pool=mean", *(f"tasks.{t}.pool=cls" for t in ("cat", "same", "count"))])


def test_heads_of_a_suite(tmp_path):
    (tmp_path / "sts-train.csv").write_text("id\tsentence1\tsentence2\tsimilarity\n1\ta\tb\t2.5\n")
    text = "encoder: minilm\ntasks:\n  suite: cs224n\n  root: .\n  heads:\n    sts: {SETTINGS}\n"

    def sts(settings):
        (tmp_path / "run.yaml").write_text(text.replace("{SETTINGS}", settings))
        return load_run(tmp_path / "run.yaml").tasks[0]

    report = sts("{compare: head}")
    assert (report.layers, report.hidden, report.targets, report.pool) == (2, 384, "raw", "cls")
    mine = sts("{compare: head, layers: 1, hidden: null, targets: null}")
    assert (mine.layers, mine.hidden, mine.targets) == (1, None, None)
    with pytest.raises(WeftError, match=r"line 6, tasks.heads.sts.layers: layers: 2 has no effect: sts"):
        sts("{layers: 2}")
    with pytest.raises(WeftError, match=r"heads: sts: no such setting 'compar'; did you mean 'compare'"):
        sts("{compar: head}")
    text = text.replace("sts: {SETTINGS}", "stsb: {SETTINGS}")
    with pytest.raises(WeftError, match=r"suite 'cs224n' has no task 'stsb'"):
        sts("{layers: 2}")
