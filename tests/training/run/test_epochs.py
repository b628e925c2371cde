"""`train.epochs`: the papers' definitions of an epoch, and runs of that length."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.tiny_run import breaking_off, write_run
from weft.cli import run as weft_cli
from weft.config import load_run
from weft.errors import WeftError
from weft.training.run.checks import mistakes
from weft.training.run.epochs import epoch_steps, with_steps
from weft.training.run.plan import plan_of
from weft.training.settings import Training

GLUE = {
    "cola": 8551,
    "mnli": 392_702,
    "rte": 2490,
    "wnli": 635,
    "qqp": 363_849,
    "stsb": 5749,
    "sst2": 67_349,
    "qnli": 104_743,
    "mrpc": 3668,
}
QUORA = {"sst": 8544, "quora": 141_506, "sts": 6040}


def steps_of(sizes, **train):
    return with_steps(Training(**train), list(sizes), list(sizes.values())).steps


def test_the_papers_epochs():
    """Steps of CA-MTL's thesis and code, of PALs' code and of multitask LoRA, for their data sets."""
    assert steps_of(GLUE, epochs=5, epoch="largest") == 5 * 12_272
    assert steps_of(GLUE, epochs=1, epoch="largest_each") == 110_448
    eight = {name: size for name, size in GLUE.items() if name != "wnli"}
    assert steps_of(eight, epochs=25, epoch="pals") == 60_000
    stretched = {"epochs": 10, "epoch": "sampled", "sampler": "stretched", "mixed": True, "batch_size": 24}
    assert steps_of(QUORA, **stretched) == 176_883  # 10 · 141,506/8, rounded up
    # every step has a batch of candidates of each task: the largest one passes once in 12,272 steps
    assert steps_of(GLUE, epochs=1, epoch="sampled", sampler="mt_uncertainty") == 12_272


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=6),
    st.integers(1, 64),
    st.floats(0.05, 7),
)
def test_what_the_definitions_have_in_common(sizes, batch, epochs):
    """Rows lie between the largest task and T times it, and settings without epochs are left alone."""
    names = [f"t{i}" for i in range(len(sizes))]
    one = {
        kind: epoch_steps(Training(epochs=1, epoch=kind, batch_size=batch), names, sizes)
        for kind in ("largest", "rows", "largest_each")
    }
    assert one["largest"] <= one["rows"] <= one["largest_each"] == len(sizes) * one["largest"]
    in_epochs = Training(epochs=epochs, batch_size=batch)
    in_steps = with_steps(in_epochs, names, sizes)
    assert in_steps.epochs is None
    assert 0 <= in_steps.steps - epochs * one["rows"] < 1 + 1e-5
    assert with_steps(in_steps, names, sizes) is in_steps


def test_an_epoch_of_the_sampler_is_that_of_the_plan():
    training = Training(epochs=1, epoch="sampled", sampler="uniform", batch_size=8)
    sizes = {"a": 100, "b": 20}
    plan = plan_of(
        Training(steps=3, sampler="uniform", batch_size=8), list(sizes), list(sizes.values()), None
    )
    assert with_steps(training, list(sizes), list(sizes.values())).steps == plan.epoch().steps == 26
    with pytest.raises(WeftError, match=r"'annealed' changes its shares.*no fixed length"):
        steps_of(sizes, epochs=1, epoch="sampled", sampler="annealed")


def test_steps_and_epochs_contradict_each_other():
    assert [key for key, _ in mistakes(Training(steps=3, epochs=2), ["a"])] == ["epochs"]
    assert [key for key, _ in mistakes(Training(epoch="largest"), ["a"])] == ["epoch"]
    assert not mistakes(Training(epochs=2, epoch="largest"), ["a"])


def test_the_last_one_written_wins(tmp_path):
    """An override, or a file on top of a preset, replaces steps by epochs and the other way round."""
    file = write_run(tmp_path)
    in_epochs = load_run(file, ["train.epochs=2"])
    assert (in_epochs.training.epochs, "steps" in in_epochs.resolved["train"]) == (2, False)
    assert "2 epochs" in repr(in_epochs)
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(in_epochs.resolved))
    assert load_run(again).training == in_epochs.training
    assert load_run(again, ["train.steps=7"]).training.epochs is None
    mine = tmp_path / "mine.yaml"
    mine.write_text("preset: quickstart\ntrain: {epochs: 0.5}\n")
    assert load_run(mine).training.epochs == 0.5
    with pytest.raises(WeftError, match=r"train.epochs: 2, and steps is 3; expected one of the two"):
        load_run(file, ["train.epochs=2", "train.steps=3"])


@pytest.mark.usefixtures("token_cache")
def test_a_run_in_epochs_is_the_run_of_as_many_steps_and_resumes(tmp_path):
    """40 + 25 + 9 rows in batches of 8: ten steps per epoch; the log has them, run.yaml the epochs."""
    file = write_run(tmp_path)
    short = ["train.evaluate_every=0", "train.checkpoint_every=4"]
    weights = {}
    for name, length in (("epochs", "train.epochs=1"), ("steps", "train.steps=10")):
        assert weft_cli(["train", str(file), length, *short, "--out", str(tmp_path / name)]) == 0
        weights[name] = (tmp_path / name / "bundle" / "tasks" / "cat.safetensors").read_bytes()
    assert weights["epochs"] == weights["steps"]
    first = json.loads((tmp_path / "epochs" / "log.jsonl").read_text().splitlines()[0])
    assert first["steps"] == 10
    written = yaml.safe_load((tmp_path / "epochs" / "run.yaml").read_text())["train"]
    assert (written["epochs"], written.get("steps")) == (1, None)
    again = ["train", str(file), "train.epochs=1", *short, "--out", str(tmp_path / "cut")]
    with breaking_off(6):
        weft_cli(again)
    assert weft_cli([*again, "--resume"]) == 0
    assert (tmp_path / "cut" / "bundle" / "tasks" / "cat.safetensors").read_bytes() == weights["steps"]


@pytest.mark.usefixtures("token_cache")
def test_check_and_plan_know_the_steps(tmp_path, capsys):
    file = write_run(tmp_path)
    assert weft_cli(["show", "plan", str(file), "train.epochs=3"]) == 0
    assert "30 steps, batch size 8" in capsys.readouterr().out
    report = weft.check(file, ["train.epochs=3"], device="cpu", progress=False)
    assert report.estimate.steps == 30
