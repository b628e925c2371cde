"""The `tasks` section: how files are written, and labels that it does not name."""

from __future__ import annotations

import pytest
import yaml

from weft.config.run_file import load_run
from weft.data.splits.splits import load_rows
from weft.errors import WeftError


def run_of(folder, **task):
    content = {"encoder": "minilm", "tasks": {"films": {"train": "a.csv", **task}}}
    (folder / "run.yaml").write_text(yaml.safe_dump(content))
    return load_run(folder / "run.yaml")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_bytes("text;label\nsüß;10\nb;9\nc;\nd;10\n".encode("cp1252"))
    (tmp_path / "b.csv").write_text("text;label\na;9\n")
    return tmp_path


def test_labels_are_found_and_written_into_the_resolved_file(folder):
    run = run_of(folder, validation="b.csv", drop=[None])
    (task,) = run.tasks
    assert task.labels == ("9", "10")
    assert task.drop == (None,)
    assert run.resolved["tasks"][0]["labels"] == ["9", "10"]
    # the run's own file needs no training file, and other splits use the same ids
    (folder / "again.yaml").write_text(yaml.safe_dump(run.resolved))
    (folder / "a.csv").unlink()
    (again,) = load_run(folder / "again.yaml").tasks
    assert again == task
    assert load_rows(again, "validation").labels == [0]


def test_labels_and_sizes_that_are_named_stay(folder):
    assert run_of(folder, labels=["10", "9"]).tasks[0].labels == ("10", "9")
    run = run_of(folder, size=11)
    assert run.tasks[0].size == 11
    assert run.resolved["tasks"][0]["labels"] == []


def test_keys_of_the_files(folder):
    run = run_of(folder, drop=["null", None], encoding="cp1252", delimiter=";", validation={"path": "b.csv"})
    assert (run.tasks[0].encoding, run.tasks[0].delimiter, run.tasks[0].quotes) == ("cp1252", ";", None)
    assert load_rows(run.tasks[0], "train").texts[0] == ("süß",)
    entry = run.resolved["tasks"][0]
    assert (entry["encoding"], entry["delimiter"]) == ("cp1252", ";")
    assert "quotes" not in entry


def test_a_run_file_without_the_keys_resolves_as_before(folder):
    entry = run_of(folder, labels=["9", "10"]).resolved["tasks"][0]
    assert not {"encoding", "delimiter", "quotes", "drop"} & set(entry)


def test_a_key_that_no_file_has(folder):
    (folder / "a.jsonl").write_text('{"text": "a", "label": 1}\n')
    with pytest.raises(WeftError, match="delimiter: expected files of the formats csv, tsv; found jsonl"):
        run_of(folder, train="a.jsonl", delimiter=";", labels=["0", "1"])
    with pytest.raises(WeftError, match="delimiter: ';'"):
        run_of(folder, delimiter=",")


def write_rte(root):
    from tests.support.tiny_run import write_rows

    for suite, columns in (("glue", ("sentence1", "sentence2")), ("superglue", ("premise", "hypothesis"))):
        rows = [{**dict.fromkeys(columns, f"a b {n}"), "label": n % 2, "idx": n} for n in range(4)]
        for split in ("train", "validation"):
            write_rows(root / suite / "rte" / f"{split}.jsonl", rows)


def test_superglues_rte_beside_glues(tmp_path):
    """Table 3.4 of the CA-MTL thesis has both; the run's own file gives the same tasks again."""
    write_rte(tmp_path)
    suites = [{"suite": "glue", "root": "."}, {"suite": "superglue", "root": ".", "twins": True}]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"encoder": "minilm", "tasks": suites}))
    run = load_run(tmp_path / "run.yaml")
    assert [(task.suite, task.name) for task in run.tasks] == [
        ("glue", "rte"),
        ("superglue", "superglue_rte"),
    ]
    assert any("kept as 'superglue_rte'" in note for note in run.notes)
    assert [len(load_rows(task, "train")) for task in run.tasks] == [4, 4]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(run.resolved))
    assert load_run(tmp_path / "again.yaml").tasks == run.tasks
    assert len(load_run(tmp_path / "run.yaml", ["tasks.twins=false"]).tasks) == 1


def test_the_metrics_of_a_suites_tasks(tmp_path):
    write_rte(tmp_path)
    content = {
        "encoder": "minilm",
        "tasks": {"suite": "glue", "root": ".", "metrics": {"rte": "f1, accuracy"}},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(content))
    run = load_run(tmp_path / "run.yaml")
    assert run.tasks[0].metrics == ("f1", "accuracy")
    assert run.resolved["tasks"][0]["metrics"] == {"rte": ["f1", "accuracy"]}
    plain = load_run(tmp_path / "run.yaml", ["tasks.metrics={}"])
    assert plain.tasks[0].metrics == ("accuracy",)
    assert "metrics" not in plain.resolved["tasks"][0]
