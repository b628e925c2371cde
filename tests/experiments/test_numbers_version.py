"""What a run computes is pinned: a change makes earlier records wrong, and must raise `NUMBERS_VERSION`."""

from __future__ import annotations

import json

import pytest
import torch

from tests.support.tiny_run import write_run
from weft.config.run_file import load_run
from weft.experiments.identity import NUMBERS_VERSION, WITHOUT_EFFECT, defaults_of
from weft.model.head_settings import HeadSettings
from weft.training.run.run import train
from weft.training.settings import Training
from weft.workflows.train import prepare_run

RAISE = (
    "a run computes different numbers than before, so the records of earlier comparisons no longer fit: "
    "raise NUMBERS_VERSION in src/weft/experiments/identity.py, and write the new numbers and defaults here"
)

PINNED = {
    "version": 1,
    "sum": 175.02297,
    "absolute": 4218.504648,
    "moved": 4.069195,
    "moved_absolute": 441.73,
}
"""Sums over all weights that trained. Machines differ in the last digits, a change in the first ones. The sum
of all changes is left out: its terms cancel, and it differs by a percent between processors."""

DEFAULTS: dict[str, dict[str, object]] = {
    "train": {
        "steps": 1000,
        "epochs": None,
        "epoch": "rows",
        "batch_size": 32,
        "accumulate": 1,
        "max_length": 128,
        "sampler": {"use": "proportional"},
        "mixed": False,
        "group_by_length": True,
        "loss": "task_mean",
        "task_weights": None,
        "conflict": None,
        "optimizer": "adamw",
        "lr": None,
        "lr_of": None,
        "betas": [0.9, 0.999],
        "eps": None,
        "warmup": 0.06,
        "schedule": "linear",
        "weight_decay": 0.01,
        "ema": None,
        "clip": 1.0,
        "clip_by": "auto",
        "absent": "still",
        "precision": "auto",
        "engine": "auto",
        "verify_engine": True,
        "trunk_cache": False,
        "seed": 1,
        "evaluate_every": 0,
        "evaluate_rows": 500,
        "last_evaluation": "whole",
        "baselines": True,
        "best": "average",
        "stop": None,
        "starved": 1000,
        "parallel": "ddp",
        "checkpoint_every": None,
        "log_every": 50,
        "measure_uncertainty": 0,
        "tensorboard": False,
    },
    "heads": {"pool": "auto", "dropout": 0.1, "layers": 1, "hidden": None, "start": "probe"},
}


def sums_of_a_run(folder) -> dict[str, float]:
    overrides = ["train.baselines=false", "method=full", "train.sampler=annealed"]
    run_file = load_run(write_run(folder, steps=20), overrides)
    prepared = prepare_run(run_file, folder / "out", device="cpu", tell=lambda note: None)
    weights = [p for p in prepared.model.parameters() if p.requires_grad]
    before = torch.cat([p.detach().double().flatten().clone() for p in weights])
    train(prepared.model, run_file.training, folder / "out", splits=prepared.splits, progress=False)
    after = torch.cat([p.detach().double().flatten() for p in weights])
    return {
        "sum": float(after.sum()),
        "absolute": float(after.abs().sum()),
        "moved": float((after - before).norm()),
        "moved_absolute": float((after - before).abs().sum()),
    }


def test_a_tiny_run_ends_with_the_same_weights(tmp_path):
    assert {"version": NUMBERS_VERSION, **sums_of_a_run(tmp_path)} == pytest.approx(PINNED, rel=1e-3), RAISE


def test_the_defaults_are_the_same():
    """A new setting may be added, with a default that changes nothing; the others must stay."""
    now = {"train": defaults_of(Training), "heads": defaults_of(HeadSettings)}
    for section, pinned in DEFAULTS.items():
        kept = {key: value for key, value in now[section].items() if key in pinned}
        assert json.loads(json.dumps(kept)) == pinned, RAISE


def test_settings_without_effect_exist():
    assert set(WITHOUT_EFFECT) <= set(Training.model_fields)
