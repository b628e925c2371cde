"""Identities: equal for equal numbers, different for whatever changes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_run import write_run
from weft.experiments.cells import cells_of
from weft.experiments.grid import load_grid
from weft.experiments.identity import identity_of, identity_of_action
from weft.experiments.job import checked_run

SPLITS = ("train", "validation")


@pytest.fixture
def folder(tmp_path):
    write_run(tmp_path / "one", steps=4)
    return tmp_path / "one"


def identity(folder, text="", splits=SPLITS, **more):
    (folder / "grid.yaml").write_text(f"base: run.yaml\n{text}")
    (cell,) = cells_of(load_grid(folder / "grid.yaml"))
    return identity_of(checked_run(cell.raw, "grid.yaml", folder), splits, **more)


def change_row(file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["text"] = "a red bird sees"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_it_does_not_depend_on_the_folder(folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "two")
    assert identity(folder) == identity(tmp_path / "two")


@pytest.mark.parametrize(
    "changed",
    [
        "train.steps: 5",
        "train.lr: 1.0e-3",
        "method.rank: 1",
        "method: full",
        "train.seed: 2",
        "heads.pool: mean",
    ],
)
def test_settings_that_change_numbers(folder, changed):
    if changed == "train.seed: 2":
        assert identity(folder, "seeds: [2]") != identity(folder)
    else:
        assert identity(folder, f"variants: {{a: {{{changed}}}}}") != identity(folder)


@pytest.mark.parametrize(
    "changed",
    [
        "train.log_every: 1",
        "train.checkpoint_every: 2",
        "train.engine: eager",
        "train.baselines: false",
        "kernels: reference",
    ],
)
def test_settings_that_change_no_number(folder, changed):
    assert identity(folder, f"variants: {{a: {{{changed}}}}}") == identity(folder)


def test_a_default_that_is_written_out(folder):
    assert identity(folder, "variants: {a: {train.weight_decay: 0.01}}") == identity(folder)


@pytest.mark.parametrize("method", ["lora", "{use: lora, sites: [query, value]}"])
def test_a_default_of_a_method_that_is_written_out(folder, method):
    plain = identity(folder, "variants: {a: {method: {use: lora, rank: 8}}}")
    assert identity(folder, f"variants: {{a: {{method: {method}}}}}") == plain
    both = identity(folder, "variants: {a: {method: [lora, bitfit]}}")
    assert both == identity(folder, "variants: {a: {method: [{use: lora, rank: 8}, bitfit]}}") != plain


def test_a_changed_row(folder):
    before = identity(folder)
    change_row(folder / "cat.train.jsonl")
    assert identity(folder) != before


def test_rows_of_a_split_that_is_not_read(folder):
    (folder / "cat.test.jsonl").write_text((folder / "cat.validation.jsonl").read_text())
    text = "variants: {a: {tasks.cat.test: cat.test.jsonl}}"
    before = identity(folder, text), identity(folder, text, (*SPLITS, "test"))
    change_row(folder / "cat.test.jsonl")
    after = identity(folder, text), identity(folder, text, (*SPLITS, "test"))
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_a_changed_encoder(folder):
    before = identity(folder)
    weights = folder / "encoder" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    in_new_process = subprocess.run(
        [
            sys.executable,
            "-c",
            "from weft.experiments.identity import encoder_facts; import json, sys;"
            "print(json.dumps(encoder_facts(sys.argv[1])))",
            str(folder / "encoder"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    from weft.experiments.identity import encoder_facts

    assert json.loads(in_new_process.stdout) != encoder_facts(str(folder / "encoder"))
    assert before


def test_cells_that_it_uses(folder):
    assert identity(folder, uses=["a"]) != identity(folder, uses=["b"]) != identity(folder)


def test_actions(folder):
    def of(action, seed=1, uses=("x",)):
        return identity_of_action(action, seed, uses, SPLITS, "grid.yaml", folder)

    grow = {"grow": {"from": "a", "tasks": {"cat": {"labels": ["no", "yes"], "train": "cat.train.jsonl"}}}}
    before = of(grow)
    assert of(grow, seed=2) != before
    assert of(grow, uses=("y",)) != before
    assert of({"assemble": ["a", "b"]}) != of({"assemble": ["b", "a"]})
    change_row(folder / "cat.train.jsonl")
    assert of(grow) != before
