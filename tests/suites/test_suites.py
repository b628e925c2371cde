from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.more import some_of
from tests.support.paths import real_data
from weft.data import load_split
from weft.errors import WeftError
from weft.suites import find_suite, load_suite, overlaps, suite_names, without_twins
from weft.suites.tables import read_yaml, table_names
from weft.tasks.task import Task


@pytest.fixture(scope="module")
def data() -> Path:
    return real_data()


def readme_sizes(data):
    """SUITE/TASK → rows of train, validation and test, of the table in the data's README."""
    sizes: dict[str, list[int]] = {}
    for line in (data / "README.md").read_text("utf-8").splitlines():
        if not line.startswith("| ") or not re.search(r"\d{2}", line):
            continue
        names, rows = (cell.strip() for cell in line.strip("| ").split("|")[:2])
        suite, _, first = re.sub(r"\(.*?\)", "", names).partition("/")
        tasks = [name.strip() for name in first.split(",")] if first else [suite.strip()]
        each = rows.split(",") if len(tasks) > 1 else [rows]
        for task, counts in zip(tasks, each, strict=True):
            sizes[f"{suite.strip()}/{task}"] = [int(number) for number in re.findall(r"\d+", counts)]
    return sizes


def test_the_suites():
    expected = ["cs224n", "glue", "mrqa", "scitail", "snli", "squad", "superglue", "swag", "swatch", "wnut17"]
    assert suite_names() == expected


REAL = ("cs224n", "glue", "scitail", "snli", "squad", "superglue", "wnut17")
"""The suites whose files are in the data."""


def paths_of(task):
    return [Path(getattr(file, "path", file)).resolve() for file in task.files.values()]


@pytest.mark.parametrize("suite", some_of(REAL, ["cs224n", "scitail", "wnut17"]))
def test_every_real_file_is_read_whole(suite, data):
    """As many rows as the data's README says, in every split of every task."""
    found: dict[str, list[int]] = {}
    for task in load_suite(suite, data):
        splits = [load_split(task, split) for split in task.files]
        found[f"{suite}/{task.name}"] = [len(split) + split.dropped for split in splits]
        assert [Path(split.source).resolve() for split in splits] == paths_of(task)
    assert found == {
        name: sizes for name, sizes in readme_sizes(data).items() if name.startswith(f"{suite}/")
    }


def test_every_real_file_is_of_a_task(data):
    tasks = {suite: load_suite(suite, data) for suite in REAL}
    assert {f"{suite}/{task.name}" for suite, of in tasks.items() for task in of} == set(readme_sizes(data))
    assert len(readme_sizes(data)) == 24
    files = {path for of in tasks.values() for task in of for path in paths_of(task)}
    assert files == {path.resolve() for path in data.rglob("*.parquet")}


def test_what_is_not_in_the_real_data_is_told(data):
    assert find_suite("glue", data).notes == [
        "suite glue: no test file of qqp, mnli",
        "suite glue: no mm file of mnli",
        "suite glue: no ax file of mnli",
    ]
    assert "no train file of record" in find_suite("superglue", data).notes[0]
    for suite in ("mrqa", "swag"):
        with pytest.raises(WeftError, match="expected"):
            find_suite(suite, data)


def test_all_of_it_together(data):
    """23 tasks: superglue's rte is glue's, and the pairs that share texts are told."""
    names = ("glue", "superglue", "squad", "wnut17", "snli", "scitail", "cs224n")
    tasks, notes = without_twins([task for name in names for task in load_suite(name, data)])
    assert [note.partition(";")[0] for note in notes] == [
        "superglue/rte is left out: it is identical to glue/rte"
    ]
    assert len(tasks) == len({task.name for task in tasks}) == 23
    told = overlaps(tasks)
    pairs = [
        "cs224n/sts and glue/stsb",
        "cs224n/sst and glue/sst2",
        "cs224n/quora and glue/qqp",
        "glue/qnli and squad",
    ]
    for pair in [*pairs, "glue/wnli and superglue/wsc"]:
        assert sum(line.startswith(f"{pair}: never train on one and test on the other") for line in told) == 1
    assert len(told) == 5


def test_glues_labels_mean_what_they_say(data):
    tasks = {task.name: task for task in load_suite("glue", data, ["rte", "cola", "stsb"])}
    rte = load_split(tasks["rte"], "validation")
    # "Christopher Reeve had an accident" does not follow: label 1 on the hub
    assert rte.texts[0][1] == "Christopher Reeve had an accident."
    assert tasks["rte"].labels[rte.labels[0]] == "not_entailment"
    assert tasks["cola"].metrics[0] == "matthews"
    assert max(load_split(tasks["stsb"], "validation").labels) == 5.0
    assert load_split(tasks["rte"], "test").labels is None


def test_folders_with_and_without_the_suites_name(tmp_path):
    from tests.support.tiny_run import write_rows

    rows = [{"sentence": "x y", "label": 0}, {"sentence": "z", "label": 1}]
    write_rows(tmp_path / "cola" / "train.jsonl", rows)
    write_rows(tmp_path / "glue" / "sst2" / "train.jsonl", rows)
    assert [t.name for t in load_suite("glue", tmp_path)] == ["cola", "sst2"]
    with pytest.raises(WeftError, match="task 'rte' has no train file in"):
        load_suite("glue", tmp_path, ["rte"])
    with pytest.raises(WeftError, match="no task has files"):
        load_suite("glue", tmp_path / "cola")


def task_of(suite, name):
    return Task(name=name, labels=("a", "b"), suite=suite)


def test_twins_go_by_order_and_only_by_suite():
    glue, superglue, own = task_of("glue", "rte"), task_of("superglue", "rte"), task_of(None, "rte")
    assert without_twins([superglue, glue])[0] == [superglue]
    assert without_twins([superglue, glue])[1] == [
        "glue/rte is left out: it is identical to superglue/rte; to keep both, set twins: true for the suite "
        "glue"
    ]
    assert without_twins([glue, own]) == ([glue, own], [])
    assert without_twins([superglue]) == ([superglue], [])


def test_twins_are_kept_on_request():
    glue, superglue = task_of("glue", "rte"), task_of("superglue", "rte")
    tasks, notes = without_twins([glue, superglue], ["superglue"])
    assert [(task.suite, task.name) for task in tasks] == [("glue", "rte"), ("superglue", "superglue_rte")]
    assert notes == [
        "superglue/rte has the same rows as glue/rte: it is kept as 'superglue_rte', because twins are "
        "requested"
    ]
    assert len(without_twins([glue, superglue], ["glue"])[0]) == 1  # the first one is kept anyway
    assert [task.name for task in without_twins([superglue, glue], ["glue"])[0]] == ["rte", "glue_rte"]


def test_overlaps_need_both_and_their_suites():
    assert overlaps([task_of("glue", "qnli"), task_of("squad", "squad")])
    assert not overlaps([task_of("glue", "qnli"), task_of(None, "squad")])
    assert not overlaps([task_of("glue", "qnli")])


def test_the_tables_name_tasks_that_exist():
    known = {f"{suite}/{task}" for suite in table_names() for task in read_yaml(suite)["tasks"]}
    table = read_yaml("overlaps")
    named = {name for pair in table["overlaps"] for name in pair["tasks"]} | {
        n for group in table["same"] for n in group
    }
    assert named <= known
    for suite in table_names():
        assert {"paper", "licence", "folders", "tasks"} <= set(read_yaml(suite))


def test_a_root_that_is_no_folder(tmp_path):
    with pytest.raises(WeftError, match="is not a folder"):
        load_suite("glue", tmp_path / "nowhere")
    with pytest.raises(WeftError, match=r"no task 'rtee'; did you mean 'rte'\?"):
        load_suite("glue", tmp_path, ["rtee"])
    with pytest.raises(WeftError, match="suite 'gleu' does not exist; did you mean 'glue'"):
        load_suite("gleu", tmp_path)


def test_suites_are_looked_for_once(tmp_path, monkeypatch):
    from weft import suites

    (tmp_path / "glue" / "rte").mkdir(parents=True)
    for split in ("train", "validation"):
        (tmp_path / "glue" / "rte" / f"{split}.jsonl").touch()
    calls = []
    monkeypatch.setattr(suites, "best_form", lambda *a, real=suites.best_form: calls.append(a) or real(*a))
    expected = suites.find_suite("glue", tmp_path, ["rte"])
    with suites.suites_found_once():
        first, second = (suites.find_suite("glue", tmp_path, ["rte"]) for _ in range(2))
        first.tasks.clear()
        assert suites.find_suite("glue", tmp_path, ["rte"]) == second == expected
        assert len(calls) == 2
    suites.find_suite("glue", tmp_path, ["rte"])
    assert len(calls) == 3
