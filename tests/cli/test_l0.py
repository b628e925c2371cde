"""`weft compact`, `weft show sparsity`, `weft show params --basis` and a run that begins from a bundle."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import yaml

import weft
from tests.support.tiny_run import breaking_off, write_run
from weft.cli import run as cli

pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run file and a trained run with gates, of which a few are left open."""
    path = tmp_path_factory.mktemp("run")
    write_run(path)
    method = "method={use: morris, rank: 6, bias_rank: 3, l0: {penalty: 1e-5, steps: 12, gate_lr: 1}}"
    assert cli(["train", str(path / "run.yaml"), method, "train.steps=4", "--out", str(path / "gated")]) == 0
    return path


def told(capsys, *arguments):
    capsys.readouterr()
    assert cli([str(a) for a in arguments]) == 0
    return json.loads(capsys.readouterr().out)


def wrong(capsys, *arguments):
    capsys.readouterr()
    assert cli([str(a) for a in arguments]) == 2
    return capsys.readouterr().err


def test_compact_and_sparsity(folder, tmp_path, capsys):
    before = told(capsys, "show", "sparsity", folder / "gated", "--json")
    assert before["all"]["weights"][1] == 2 * 2 * 6
    assert 0 < before["all"]["weights"][0] < 24
    made = told(capsys, "compact", folder / "gated", "--out", tmp_path / "small", "--json")
    assert made["parameters_of_adapters"]["after"] < made["parameters_of_adapters"]["before"]
    assert made["bytes_of_the_bundle"]["after"] < made["bytes_of_the_bundle"]["before"]
    assert told(capsys, "show", "sparsity", tmp_path / "small", "--json") == before
    scores = [
        told(capsys, "evaluate", b, "--tasks", folder / "run.yaml", "--json")
        for b in (folder / "gated" / "bundle", tmp_path / "small")
    ]
    for task, metrics in scores[0]["tasks"].items():
        assert scores[1]["tasks"][task] == pytest.approx(metrics, abs=1e-5)
    assert cli(["show", "sparsity", str(tmp_path / "small")]) == 0
    assert "of 24" in capsys.readouterr().out
    assert cli(["compact", str(folder / "gated"), "--out", str(tmp_path / "table")]) == 0
    assert "bytes of the bundle" in capsys.readouterr().out
    assert "nothing to compact" in wrong(capsys, "compact", tmp_path / "small", "--out", tmp_path / "again")
    assert "holds no bundle" in wrong(capsys, "compact", tmp_path, "--out", tmp_path / "again")
    (tmp_path / "other").mkdir()
    assert "is not a bundle" in wrong(capsys, "compact", folder / "gated", "--out", tmp_path / "other")


def test_sparsity_of_what_has_no_rank(folder, tmp_path, capsys):
    weft.Model(folder / "encoder", [weft.Task("a", size=2)], "bitfit").save(tmp_path / "bitfit")
    assert "no low-rank updates to count" in wrong(capsys, "show", "sparsity", tmp_path / "bitfit")


def test_params_on_a_round_number(folder, capsys):
    call = ["show", "params", folder / "run.yaml", "method=morris"]
    found = told(capsys, *call, "--basis", "1M", "--json")
    assert found["paper"]["basis"] == 1_000_000
    added = found["shared"] + sum(found["per_task"].values())
    assert found["paper"]["trained_percent_per_task"] == pytest.approx(100 * added / 1e6 / 3)
    assert cli([str(a) for a in (*call, "--basis", "1M")]) == 0
    assert "1,000,000" in capsys.readouterr().out
    assert "such as 110M" in wrong(capsys, *call, "--basis", "many")


def test_a_run_can_begin_from_a_bundle(folder, tmp_path, capsys):
    """The weights of a run that does next to nothing are the bundle's; its run file remembers the start."""
    method = "method={use: lora, rank: 2}"
    assert cli(["train", str(folder / "run.yaml"), method, "--out", str(tmp_path / "first")]) == 0
    call = ["train", str(folder / "run.yaml"), method, "train.steps=1", "train.lr=1e-12"]
    assert cli([*call, f"start={tmp_path / 'first'}", "--out", str(tmp_path / "second")]) == 0
    first, second = weft.load(tmp_path / "first"), weft.load(tmp_path / "second")
    for (name, one), (_, other) in zip(first.named_parameters(), second.named_parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0, msg=name)
    assert float(first.adapters["0/query"][0].B.detach().abs().max()) > 0
    said = yaml.safe_load((tmp_path / "second" / "run.yaml").read_text())
    assert said["start"] == str(tmp_path / "first")


def test_a_run_killed_before_its_first_checkpoint_begins_from_the_bundle_again(folder, tmp_path):
    method = "method={use: lora, rank: 2}"
    assert cli(["train", str(folder / "run.yaml"), method, "--out", str(tmp_path / "first")]) == 0
    call = [
        "train",
        str(folder / "run.yaml"),
        method,
        "train.steps=2",
        f"start={tmp_path / 'first'}",
        "--out",
    ]
    assert cli([*call, str(tmp_path / "straight")]) == 0
    with breaking_off(0):
        assert cli([*call, str(tmp_path / "broken")]) != 0
    assert cli([*call, str(tmp_path / "broken"), "--resume"]) == 0
    one, other = (weft.load(tmp_path / name) for name in ("straight", "broken"))
    for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def test_a_model_whose_gates_are_decided_is_compacted_before_it_trains_on(folder, tmp_path, capsys):
    spec = json.dumps(weft.load(folder / "gated").method.settings())
    call = ["train", folder / "run.yaml", f"method={spec}", f"start={folder / 'gated'}"]
    assert "are decided already" in wrong(capsys, *call, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert cli(["compact", str(folder / "gated"), "--out", str(tmp_path / "small")]) == 0
    small = weft.load(tmp_path / "small")
    spec = json.dumps(small.method.settings())
    call = [folder / "run.yaml", f"method={spec}", f"start={tmp_path / 'small'}", "train.steps=3"]
    assert cli(["train", *(str(a) for a in call), "--out", str(tmp_path / "on")]) == 0
    assert weft.load(tmp_path / "on").method == small.method


def test_tasks_trained_apart_become_the_start_of_a_morris_run(folder, tmp_path):
    run = yaml.safe_load((folder / "run.yaml").read_text())
    for task in ("cat", "same", "count"):
        alone = {**run, "encoder": str(folder / "encoder"), "tasks": {task: run["tasks"][task]}}
        (folder / f"{task}.yaml").write_text(yaml.safe_dump(alone))
        assert cli(["train", str(folder / f"{task}.yaml"), "--out", str(tmp_path / task)]) == 0
    apart = [str(tmp_path / task) for task in ("cat", "same", "count")]
    assert cli(["assemble", *apart, "--as", "morris", "--rank", "6", "--out", str(tmp_path / "cp")]) == 0
    method = "method={use: morris, rank: 6, biases: none}"
    call = ["train", str(folder / "run.yaml"), method, f"start={tmp_path / 'cp'}", "train.steps=1"]
    assert cli([*call, "train.lr=1e-12", "--out", str(tmp_path / "on")]) == 0
    request = [("cat", "the old cat"), ("same", ("a dog", "a bird")), ("count", "red red red")]
    answers = weft.load(tmp_path / "on").predict(request)
    for number, folder_ in enumerate(apart):
        (alone,) = weft.load(folder_).predict([request[number]])
        key = "value" if number == 2 else "probabilities"
        assert answers[number][key] == pytest.approx(alone[key], abs=1e-4)


def test_a_start_that_does_not_fit(folder, tmp_path, capsys):
    call = ["train", folder / "run.yaml", "--out", tmp_path / "out"]
    assert "start: expected the folder of a bundle" in wrong(capsys, *call, "start=5")
    assert "nowhere holds no bundle" in wrong(capsys, *call, "start=nowhere")
    assert "has a different method" in wrong(capsys, *call, f"start={folder / 'gated'}")
    weft.Model("random:bert-tiny", [weft.Task("a", size=2)], {"use": "lora", "rank": 2}).save(tmp_path / "b")
    assert "needs a different encoder" in wrong(capsys, *call, f"start={tmp_path / 'b'}")
    assert not (tmp_path / "out").exists()


def test_tasks_that_the_bundle_lacks_start_anew(folder, tmp_path, capsys):
    from weft.bundle.start import start_from

    known, new = weft.Task("a", size=2), weft.Task("n", size=3)
    old = weft.Model(folder / "encoder", [known], {"use": "lora", "rank": 2}, seed=1)
    with torch.no_grad():
        old.adapters["0/query"][0].B.add_(1.0)
    old.save(tmp_path / "old")
    model = weft.Model(folder / "encoder", [new, known], {"use": "lora", "rank": 2}, seed=2)
    fresh = model.adapters["0/query"][0].A[0].clone()
    assert start_from(model, tmp_path / "old") == [
        f"{tmp_path / 'old'} has no task 'n': it starts from initial values"
    ]
    adapter = model.adapters["0/query"][0]
    assert torch.equal(adapter.B[1], old.adapters["0/query"][0].B[0])
    assert torch.equal(adapter.A[0], fresh)
    other = weft.Model(folder / "encoder", [weft.Task("a", size=5)], {"use": "lora", "rank": 2})
    with pytest.raises(weft.WeftError, match=r"start: labels of task 'a' is \('0', '1'\) in"):
        start_from(other, tmp_path / "old")


def test_a_start_whose_tasks_or_heads_mean_something_else(folder, tmp_path, capsys):
    """Never silently: labels in another order, another pool, files of two bundles, broken files."""
    first = tmp_path / "first"
    assert cli(["train", str(folder / "run.yaml"), "train.steps=2", "--out", str(first)]) == 0
    call = ["train", folder / "run.yaml", "train.steps=1", "--out", tmp_path / "out"]
    started = wrong(capsys, *call, f"start={first}", "tasks.cat.labels=['yes', 'no']")
    assert "start: labels of task 'cat' is ('no', 'yes')" in started
    assert "set heads.pool=" in wrong(capsys, *call, f"start={first}", "heads.pool=mean")
    bundle = first / "bundle"
    file = bundle / "tasks" / "cat.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:50])
    assert "cat.safetensors is damaged" in wrong(capsys, *call, f"start={first}")
    file.unlink()
    assert "cat.safetensors is missing" in wrong(capsys, *call, f"start={first}")
    file.write_bytes(whole)
    shared = bundle / "shared.safetensors"
    shared.write_bytes(whole)
    assert "shared.safetensors is damaged" in wrong(capsys, *call, f"start={first}")
    assert not (tmp_path / "out").exists()


def test_a_resumed_run_does_not_need_its_start_any_more(folder, tmp_path):
    assert cli(["train", str(folder / "run.yaml"), "train.steps=2", "--out", str(tmp_path / "first")]) == 0
    call = ["train", str(folder / "run.yaml"), "train.steps=5", f"start={tmp_path / 'first'}", "--out"]
    assert cli([*call, str(tmp_path / "straight")]) == 0
    with breaking_off(4):
        assert cli([*call, str(tmp_path / "broken")]) != 0
    shutil.rmtree(tmp_path / "first")
    assert cli([*call, str(tmp_path / "broken"), "--resume"]) == 0
    one, other = (weft.load(tmp_path / name) for name in ("straight", "broken"))
    for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def test_the_compacted_bundle_does_not_go_where_the_gated_one_is(folder, tmp_path, capsys):
    for out in (folder / "gated" / "bundle", folder / "gated" / "bundle" / "x", folder / "gated"):
        assert "pass a different folder" in wrong(capsys, "compact", folder / "gated", "--out", out)


def test_a_list_of_methods_in_a_list(folder, tmp_path, capsys):
    method = "method=[[lora, bitfit], {use: morris, rank: 3, l0: {steps: 2, gate_lr: 9, penalty: 1}}]"
    call = ["train", str(folder / "run.yaml"), method, "train.steps=2", "--out", str(tmp_path / "nest")]
    assert cli(call) == 0
    assert cli(["compact", str(tmp_path / "nest"), "--out", str(tmp_path / "small")]) == 0


def test_settings_that_only_some_commands_would_see(folder, capsys):
    parts = "method=[{use: lora, l0: {steps: 3}}, {use: morris, l0: {steps: 4}}]"
    assert "different l0.steps" in wrong(capsys, "check", folder / "run.yaml", parts)
    found = told(
        capsys,
        "show",
        "plan",
        folder / "run.yaml",
        "method={use: lora, l0: true}",
        "method.l0.steps=5",
        "--json",
    )
    assert sum(task["drawn"] for task in found["tasks"]) == 25


def test_a_frozen_part_of_a_tasks_own_encoder_is_resumed_as_it_began(folder, tmp_path):
    """It comes from the start, and does not train: the checkpoint must have it all the same."""
    run = str(folder / "run.yaml")
    full = ["method=full", "train.lr=0.01", "train.steps=3"]
    assert cli(["train", run, *full, "--out", str(tmp_path / "first")]) == 0
    method = "method={use: separate, train_encoder: layers top half}"
    call = [
        "train",
        run,
        method,
        "train.steps=5",
        "train.checkpoint_every=3",
        f"start={tmp_path / 'first'}",
        "--out",
    ]
    assert cli([*call, str(tmp_path / "straight")]) == 0
    with breaking_off(4):
        assert cli([*call, str(tmp_path / "broken")]) == 130
    assert cli([*call, str(tmp_path / "broken"), "--resume"]) == 0
    for file in (tmp_path / "straight" / "bundle").rglob("*.safetensors"):
        other = tmp_path / "broken" / file.relative_to(tmp_path / "straight")
        assert other.read_bytes() == file.read_bytes()
