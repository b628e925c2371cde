"""A run that was broken off goes on to bit-identical weights, or is refused with the reason."""

from __future__ import annotations

import json

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import weft
from tests.conformance.table import METHODS
from tests.support.more import some_of
from tests.support.sealing import edit_state
from tests.support.whole_runs import go, log_of, stop_after
from weft.config import load_run
from weft.errors import WeftError
from weft.training.run.checkpoint_files import last_checkpoint, read_state

pytestmark = pytest.mark.usefixtures("token_cache")


def test_resume_is_refused_where_it_would_not_be_the_same_run(folder, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(WeftError, match="has no run to resume"):
        go(folder, out, resume=True)
    stop_after(folder, out, 7)
    with pytest.raises(WeftError, match="holds a run; continue it with resume=True"):
        go(folder, out)
    with pytest.raises(WeftError, match=r"train.lr: 0.01 then, 0.02 now"):
        go(folder, out, ["train.lr=0.02"], resume=True)
    with pytest.raises(WeftError, match=r"\n  method.rank: 2 then, 3 now$"):
        go(folder, out, ["method.rank=3"], resume=True)
    rows = (folder / "cat.train.jsonl").read_text()
    try:
        (folder / "cat.train.jsonl").write_text(rows + rows.split("\n")[0] + "\n")
        with pytest.raises(
            WeftError, match="was written with different data of cat/train, which have changed since"
        ):
            go(folder, out, resume=True)
        # the same sizes and lengths, other labels
        (folder / "cat.train.jsonl").write_text(
            rows.replace('"yes"', '"?"').replace('"no"', '"yes"').replace("?", "no")
        )
        with pytest.raises(WeftError, match="was written with different data"):
            go(folder, out, resume=True)
    finally:
        (folder / "cat.train.jsonl").write_text(rows)
    weights = folder / "encoder" / "model.safetensors"
    kept = weights.read_bytes()
    try:
        save_file({k: v * 3 for k, v in load_file(weights).items()}, weights, {"format": "pt"})
        with pytest.raises(WeftError, match="was written with different encoder weights"):
            go(folder, out, resume=True)
    finally:
        weights.write_bytes(kept)
    checkpoint = last_checkpoint(out / "checkpoints")
    state = checkpoint / "state.json"
    kept = state.read_bytes()
    try:
        edit_state(checkpoint, data={**read_state(checkpoint)["data"], "tokens": 92})
        with pytest.raises(
            WeftError, match="was written by an earlier version of weft, which tokenized texts differently"
        ):
            go(folder, out, resume=True)
    finally:
        state.write_bytes(kept)
    (out / ".gitignore").write_text("*")
    _, run = go(folder, out, ["train.log_every=2"], resume=True)  # what changes no weight may differ
    with pytest.raises(WeftError, match="has ended"):
        go(folder, out, resume=True)
    assert "resume" in [e["event"] for e in log_of(run)]
    assert (out / ".gitignore").exists()  # what is not ours is left alone


def test_a_run_killed_in_its_first_moment_begins_anew(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".run.yaml.new").write_text("half")
    _, run = go(folder, tmp_path / "out", ["train.steps=2"])
    assert not (run.folder / ".run.yaml.new").exists()


def test_resumed_in_this_process_too(folder, tmp_path):
    straight, _ = go(folder, tmp_path / "straight")
    checkpoint = stop_after(folder, tmp_path / "broken", 11)
    assert checkpoint.name == "step-00000009"
    assert {p.suffix for p in checkpoint.iterdir()} == {".safetensors", ".json"}
    resumed, _ = go(folder, tmp_path / "broken", resume=True)
    for (name, one), (_, other) in zip(straight.named_parameters(), resumed.named_parameters(), strict=True):
        assert torch.equal(one, other), name


NAMES = {"a": "cat", "b": "same", "c": "count"}


def test_a_run_is_resumed_by_its_own_run_yaml(folder, tmp_path):
    """What a run wrote of itself means the same run when it is read, defaults and all."""
    whole, run = go(folder, tmp_path / "whole")
    go(folder, tmp_path / "cut")
    (tmp_path / "cut" / "metrics.json").unlink()
    again, _ = go(tmp_path / "cut", tmp_path / "cut", resume=True)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    said = yaml.safe_load((run.folder / "run.yaml").read_text())
    assert said["train"]["sampler"] == {"use": "proportional"}
    # as an earlier weft wrote it
    said["train"]["sampler"] = "proportional"
    del said["train"]["precision"]
    (tmp_path / "cut" / "metrics.json").unlink()
    (tmp_path / "cut" / "run.yaml").write_text(yaml.safe_dump(said, sort_keys=False))
    go(tmp_path / "cut", tmp_path / "cut", resume=True)


@pytest.mark.parametrize("name", some_of(METHODS, 7))
def test_every_method_resumes_bit_equal(name, folder, tmp_path):
    spec = json.dumps(METHODS[name])
    for short, long in NAMES.items():
        spec = spec.replace(f'"{short}"', f'"{long}"')
    overrides = [f"method={spec}", "train.mixed=true", "train.steps=8", "train.lr=0.003"]
    straight, _ = go(folder, tmp_path / "straight", overrides)
    stop_after(folder, tmp_path / "broken", 5, overrides)
    resumed, _ = go(folder, tmp_path / "broken", overrides, resume=True)
    for (key, one), (_, other) in zip(straight.named_parameters(), resumed.named_parameters(), strict=True):
        assert torch.equal(one, other), key


@pytest.mark.parametrize("stop", some_of([2, 4, 5, 7, 9], [2, 5]))
@pytest.mark.parametrize("method", some_of(["morris", "lora"], 1))
def test_a_run_with_gates_resumes_bit_equal_in_both_phases(method, stop, folder, tmp_path):
    """Checkpoints after every second step: before, at and after the end of phase one, which has four."""
    spec = f"method={{use: {method}, rank: 5, l0: {{steps: 4, gate_lr: 2, penalty: 0.01}}}}"
    overrides = [spec, "train.mixed=true", "train.steps=6", "train.checkpoint_every=2", "train.accumulate=2"]
    straight, first = go(folder, tmp_path / "straight", overrides)
    stop_after(folder, tmp_path / "broken", stop, overrides)
    resumed, second = go(folder, tmp_path / "broken", overrides, resume=True)
    for (key, one), (_, other) in zip(straight.named_parameters(), resumed.named_parameters(), strict=True):
        assert torch.equal(one, other), key
    assert first.metrics == second.metrics
    told = [
        [
            {**e, "time": 0, "seconds": 0, "step_seconds": 0}
            for e in log_of(run)
            if e["event"] not in ("resume", "end")
        ]
        for run in (first, second)
    ]
    assert told[0] == told[1]


def test_another_build_gets_one_line(folder, tmp_path, capsys):
    checkpoint = stop_after(folder, tmp_path / "out", 8)
    edit_state(checkpoint, torch="1.0", threads=99)
    run = load_run(folder / "run.yaml")
    model = weft.Model(run.encoder, run.tasks, run.method, seed=1)
    weft.train(model, run.training, tmp_path / "out", resume=True, resolved=run.resolved)
    said = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(said) == 1
    assert "torch 1.0 then" in said[0]
    assert "threads 99 then" in said[0]
