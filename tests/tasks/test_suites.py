from __future__ import annotations

from pathlib import Path

import pytest

from weft.data import load_split
from weft.errors import WeftError
from weft.tasks.suites import load_suite, suite_names

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the real data sets are not beside the repository"
)
SIZES = {
    "cola": (8551, 1043),
    "sst2": (67349, 872),
    "mrpc": (3668, 408),
    "stsb": (5749, 1500),
    "rte": (2490, 277),
    "wnli": (635, 71),
    "qnli": (102249, 5463),
    "qqp": (106471, 20212),
    "mnli": (42291, 9815),
}


def test_the_suites():
    assert suite_names() == ["glue", "swatch"]


@needs_data
def test_glue_is_read_whole():
    tasks = {task.name: task for task in load_suite("glue", SHARED)}
    assert set(tasks) == set(SIZES)
    for name, (train, validation) in SIZES.items():
        assert (len(load_split(tasks[name], "train")), len(load_split(tasks[name], "validation"))) == (
            train,
            validation,
        )


@needs_data
def test_glues_labels_mean_what_they_say():
    tasks = {task.name: task for task in load_suite("glue", SHARED, ["rte", "cola", "stsb"])}
    rte = load_split(tasks["rte"], "validation")
    # "Christopher Reeve had an accident" does not follow: label 1 on the hub
    assert rte.texts[0][1] == "Christopher Reeve had an accident."
    assert tasks["rte"].labels[rte.labels[0]] == "not_entailment"
    assert tasks["cola"].metrics[0] == "matthews"
    assert max(load_split(tasks["stsb"], "validation").labels) == 5.0
    assert load_split(tasks["rte"], "test").labels is None


def test_folders_with_and_without_the_suites_name(tmp_path):
    from tests.tiny_run import write_rows

    rows = [{"sentence": "x y", "label": 0}, {"sentence": "z", "label": 1}]
    write_rows(tmp_path / "cola" / "train.jsonl", rows)
    write_rows(tmp_path / "glue" / "sst2" / "train.jsonl", rows)
    assert [t.name for t in load_suite("glue", tmp_path)] == ["cola", "sst2"]
    with pytest.raises(WeftError, match="task 'rte' has no train file in"):
        load_suite("glue", tmp_path, ["rte"])
    with pytest.raises(WeftError, match="no task has files"):
        load_suite("glue", tmp_path / "cola")
