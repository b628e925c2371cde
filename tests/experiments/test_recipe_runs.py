"""A recipe from the command line to its claims, with a tiny encoder."""

from __future__ import annotations

import json

import pytest

import weft
import weft.experiments.records
from tests.support.recipe_runs import write_recipe_data
from weft.cli import run
from weft.errors import WeftError

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_recipe_data(tmp_path_factory.mktemp("recipe"))


def test_a_recipe_is_run_measured_and_judged(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    words = ["compare", "recipe:ca-mtl-figure3.8", *data.overrides, "seeds=1", "train.steps=2"]
    words += [
        "train.batch_size=8",
        "train.evaluate_every=1",
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
    ]
    assert run([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (claim,) = facts["claims"]
    assert claim["verdict"] == "undecided"
    assert claim["why"].startswith("1 seed; at least 3 are needed") or "rank correlation" in claim["why"]
    (record,) = weft.experiments.records.Records(tmp_path / "out").folder.iterdir()
    measured = weft.experiments.records.read_record(record.read_bytes(), "record").measures
    assert {"difficulty", "first_peak"} <= set(measured)
    assert not list((tmp_path / "out" / "runs").glob("*"))  # the weights were needed for measures alone
    # nothing is trained again, and an undecided claim is no success
    assert run([*words, "--strict"]) == 1
    shown = capsys.readouterr().out
    assert "claims: 0 held, 0 not held, 1 undecided" in shown
    assert "undecided  The more difficult a task, the earlier its first peak" in shown
    assert "| undecided | The more difficult a task" in (tmp_path / "out" / "tables.md").read_text()


def test_published_counts_are_beside_ours(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    words = ["compare", "recipe:multitask-lora-table3", *data.overrides, "--device", "cpu"]
    words += ["exclude=[{variant: baseline 2}, {variant: LoRA 1}, {variant: LoRA 3}]"]
    assert run([*words, "--out", str(tmp_path / "out"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    ours = {name: entry["published"] for name, entry in facts["variants"].items()}
    assert set(ours["LoRA 4"]) == {"incremental", "bundled"}
    assert ours["LoRA 4"]["incremental"] < ours["LoRA 2"]["incremental"]
    verdicts = {claim["text"]: claim["verdict"] for claim in facts["claims"]}
    assert verdicts["A shared LoRA needs less than one per task"] == "held"


def test_a_wrong_claim_stops_before_anything_is_trained(tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "run: {encoder: minilm, tasks: {suite: swatch}}\n"
        "variants: {full: {method: full}, lora: {method: lora}}\n"
        "claims: [average(lorra) > average(full)]\n"
    )
    with pytest.raises(
        WeftError, match=r"claims\.0: claim, character 9: there is no variant 'lorra'; did you"
    ):
        weft.compare(grid, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
