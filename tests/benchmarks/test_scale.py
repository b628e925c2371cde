"""The figures of docs/scale.md: where a text's CPU time goes, and the run that evaluates many rows."""

import json

from benchmarks.speed import corpora, host_cost, rows
from benchmarks.speed.bundles import made_bundle
from benchmarks.speed.scale import starts

import weft
from tests.support.tiny_run import save_encoder


def test_the_parts_of_a_text_add_up_and_every_row_is_answered(tmp_path):
    bundle, names = made_bundle(tmp_path / "bundle", str(save_encoder(tmp_path / "encoder")), 1)
    (tmp_path / "parts").mkdir()
    corpora.write(tmp_path / "parts", 50, 1, tmp_path / "rows.jsonl")
    found = host_cost.measured(bundle, tmp_path / "rows.jsonl", tmp_path / "out.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").open(encoding="utf-8")]
    assert len(answers) == 50
    assert {answer["task"] for answer in answers} == set(names)
    parts = ("reading", "tokenizing", "batching", "decoding", "writing", "other")
    assert abs(sum(found[name] for name in parts) - found["host"]) < 1e-9
    assert found["encoder"] > 0


def test_rows_are_of_the_tasks_in_turn(tmp_path):
    corpora.write(tmp_path, 5, 2, tmp_path / "one.txt", ["a", "b"])
    lines = [json.loads(line) for file in sorted(tmp_path.glob("*.jsonl")) for line in file.open()]
    assert [line["task"] for line in lines] == ["a", "b", "a", "b", "a"]
    assert [line["n"] for line in lines] == list(range(5))


def test_a_bundle_is_made_with_adapters_that_do_something(tmp_path):
    bundle, names = made_bundle(tmp_path / "bundle", str(save_encoder(tmp_path / "encoder")), 2)
    model = weft.load(bundle)
    first, second = model.predict([(name, "the cat sees") for name in names])
    assert first["probabilities"] != second["probabilities"]


def test_starts_are_repeated_while_time_is_left():
    assert starts(lambda: 1.0, until=0.0) == {"first": 1.0, "all": [1.0]}
    assert len(starts(lambda: 0.0, until=float("inf"))["all"]) == 3


def test_many_evaluated_rows_are_not_evaluated_by_the_training(tmp_path):
    run = json.loads(rows.write_inputs(tmp_path, "jsonl", 20, 30).read_text())
    assert run["train"]["last_evaluation"] == "subset"
    assert sum(1 for _ in (tmp_path / "validation.jsonl").open()) == 30
    assert (
        "evaluate_rows" not in json.loads(rows.write_inputs(tmp_path, "csv", 20, None).read_text())["train"]
    )
