"""Damaged run folders: the run goes on from what is undamaged, to the same bits, or is refused clearly."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import weft
from tests.support.more import some_of
from tests.support.sealing import edit_state, unseal_state
from tests.support.tiny_run import breaking_off
from tests.support.whole_runs import go, stop_after
from weft.config import load_run
from weft.errors import WeftError
from weft.training.run.checkpoint_files import best_of_all, checkpoints, copy_of, last_checkpoint

pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.fixture(scope="module")
def broken(folder, tmp_path_factory):
    """A run that was broken off in step 11, with checkpoints after 6 and 9; and one that was not."""
    place = tmp_path_factory.mktemp("broken")
    straight, _ = go(folder, place / "straight")
    assert stop_after(folder, place / "out", 11).name == "step-00000009"
    assert [path.name for path in checkpoints(place / "out" / "checkpoints")] == [
        "step-00000006",
        "step-00000009",
    ]
    return place, {name: value.clone() for name, value in straight.named_parameters()}


@pytest.fixture
def run(broken, tmp_path):
    return shutil.copytree(broken[0] / "out", tmp_path / "out")


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def resumed(folder, run, capsys, *overrides):
    """Resume with what is shown; returns the model and the notes."""
    run_file = load_run(folder / "run.yaml", overrides)
    model = weft.Model(run_file.encoder, run_file.tasks, run_file.method, seed=run_file.training.seed)
    weft.train(model, run_file.training, run, resume=True, resolved=run_file.resolved)
    lines = capsys.readouterr().err.splitlines()
    return model, [line for line in lines if line.startswith("note: ")]


def assert_same(model, broken):
    for name, value in model.named_parameters():
        assert torch.equal(value, broken[1][name]), name


FILES = ("state.json", "weights.safetensors", "optimizers.safetensors", "more.safetensors")


@pytest.mark.parametrize("name", some_of(FILES, 2))
def test_a_damaged_checkpoint_gives_way_to_the_one_before(name, folder, run, broken, capsys):
    path = run / "checkpoints" / "step-00000009" / name
    path.write_bytes(path.read_bytes()[:-4]) if name == "state.json" else flip(path)
    model, notes = resumed(folder, run, capsys)
    assert_same(model, broken)
    (note,) = notes
    assert f"{path} is damaged" in note
    assert "the run goes on from the checkpoint before: step-00000006" in note
    steps = [path.name for path in checkpoints(run / "checkpoints")]
    assert steps == ["step-00000015", "step-00000018"]  # the damaged one was replaced


def test_a_damaged_older_one_is_noted_and_not_needed(folder, run, broken, capsys):
    flip(run / "checkpoints" / "step-00000006" / "weights.safetensors")
    model, (note,) = resumed(folder, run, capsys)
    assert_same(model, broken)
    assert "goes on from the last checkpoint, which does not need it: step-00000009" in note


def test_a_damaged_one_ahead_is_not_mistaken_for_a_newer_one(folder, run, broken, capsys):
    """Going back to 6 with checkpoints after 4, 8, …: that after 9 is damaged and must not be kept."""
    flip(run / "checkpoints" / "step-00000009" / "weights.safetensors")
    with breaking_off(8), pytest.raises(KeyboardInterrupt):
        go(folder, run, ["train.checkpoint_every=4"], resume=True)
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-00000006", "step-00000008"]
    model, notes = resumed(folder, run, capsys, "train.checkpoint_every=4")
    assert_same(model, broken)
    assert notes == []


def test_all_damaged(folder, run, capsys):
    flip(run / "checkpoints" / "step-00000006" / "optimizers.safetensors")
    (run / "checkpoints" / "step-00000009" / "state.json").unlink()
    before = sorted(path.name for path in run.rglob("*"))
    with pytest.raises(WeftError, match="none of its checkpoints is undamaged") as raised:
        go(folder, run, resume=True)
    for part in ("step-00000006/optimizers.safetensors is damaged", "step-00000009/state.json is missing"):
        assert part in str(raised.value)
    assert "restore one of them from a copy, or start a new run with a different out" in str(raised.value)
    assert sorted(path.name for path in run.rglob("*")) == before  # nothing is deleted


def test_best_weights_that_all_need_have_a_second_copy(folder, run, broken, capsys):
    ((name, _),) = {*best_of_all(run / "checkpoints")[0].items()}
    assert [list(files) for files in best_of_all(run / "checkpoints")] == [[name], [name]]
    best = run / "checkpoints" / name
    whole = best.read_bytes()
    assert copy_of(best).read_bytes() == whole
    assert copy_of(best).stat().st_ino != best.stat().st_ino
    for damaged in (best, copy_of(best)):
        flip(damaged)
        model, (note,) = resumed(folder, shutil.copytree(run, run.parent / damaged.name), capsys)
        assert_same(model, broken)
        assert "it was written again from" in note
        flip(damaged)
    flip(best)
    flip(copy_of(best))
    with pytest.raises(WeftError, match=rf"(?s)none of its checkpoints.*{name} is damaged"):
        go(folder, run, resume=True)


def test_best_weights_that_one_checkpoint_needs_are_found_again(folder, tmp_path, broken, capsys):
    """A damaged file that was written between two checkpoints: the run goes back and writes it again."""
    run = tmp_path / "out"
    stop_after(folder, run, 7)  # checkpoints after 3 and 6, best weights of step 5
    assert [list(files) for files in best_of_all(run / "checkpoints")] == [[], ["best-00000005.safetensors"]]
    flip(run / "checkpoints" / "best-00000005.safetensors")
    model, (note,) = resumed(folder, run, capsys)
    assert_same(model, broken)
    assert "goes on from the checkpoint before: step-00000003" in note


def test_best_weights_damaged_before_the_end(folder, tmp_path, monkeypatch):
    """Within one process, and no checkpoint: noticed when they are restored; a resumed run begins again."""
    from weft.training.run.best import Best

    real = Best.restore

    def damaging(self, state):
        for file in self.folder.glob("best-*.safetensors"):
            flip(file)
        real(self, state)

    overrides = ["train.best=count", "train.lr=0.5", "train.checkpoint_every=0"]
    straight, run = go(folder, tmp_path / "straight", overrides)
    # the last weights are not the best ones
    assert json.loads((run.folder / "metrics.json").read_text())["step"] < 20
    with monkeypatch.context() as patch:
        patch.setattr(Best, "restore", damaging)
        with pytest.raises(WeftError, match=r"(?s)best-\d+.safetensors is damaged.*resume=True"):
            go(folder, tmp_path / "out", overrides)
    again, _ = go(folder, tmp_path / "out", overrides, resume=True)
    for (name, one), (_, other) in zip(straight.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(one, other), name


SETTINGS = {
    "empty": "",
    "cut": "encoder: x\nmethod:\n  use: [lo",
    "a list": "- 1\n- 2\n",
    "a number": "3\n",
    "not UTF-8": b"encoder: \xff\xfe\n",
    "a tab": "encoder:\tx\n\t- y",
    "other sections": "encoder: x\nmethod: 3\n",
    "a tag": "!!python/object:os.system {}\n",
    "a bad date": "encoder: 2021-99-99\n",
}


@pytest.mark.parametrize("name", some_of(SETTINGS, ["cut", "other sections"]))
def test_a_damaged_run_yaml(name, folder, run, broken, capsys):
    text = SETTINGS[name]
    path = run / "run.yaml"
    good = path.read_bytes()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for checkpoint in checkpoints(run / "checkpoints"):
        assert json.loads((checkpoint / "state.json").read_text())["settings"]["train"]["steps"] == 20
    copied = shutil.copytree(run, run.parent / "old")
    for checkpoint in checkpoints(copied / "checkpoints"):
        unseal_state(checkpoint)  # of a version that kept no copy of the settings
    with pytest.raises(WeftError, match=r"run.yaml is damaged: .*\n  restore it from a copy"):
        go(folder, copied, resume=True)
    model, (note,) = resumed(folder, run, capsys)
    assert_same(model, broken)
    assert "run.yaml is damaged" in note
    assert "it was written again from the settings in the checkpoint" in note
    assert path.read_bytes() == good


def test_a_run_yaml_that_is_gone_or_has_another_value(folder, run, broken, capsys):
    path = run / "run.yaml"
    good = path.read_bytes()
    changed = good.replace(b"lr: 0.01", b"lr: 0.11")
    assert changed != good
    for content in (None, changed):
        copied = shutil.copytree(run, run.parent / f"copied-{content is None}")
        (copied / "run.yaml").unlink() if content is None else (copied / "run.yaml").write_bytes(content)
        model, (note,) = resumed(folder, copied, capsys)
        assert_same(model, broken)
        assert "run.yaml is missing" in note if content is None else "train.lr: 0.11 then, 0.01 now" in note
        assert (copied / "run.yaml").read_bytes() == good
    # read as the run file itself, the changed value is the present one too
    path.write_bytes(changed)
    with pytest.raises(WeftError, match=r"(?s)is damaged or was edited.*train.lr: 0.01 then, 0.11 now"):
        go(run, run, resume=True)


def test_a_run_whose_data_has_moved_goes_on(folder, run, broken, capsys, tmp_path):
    """Its paths are edited by hand; what they lead to is the same."""
    moved = shutil.copytree(folder, tmp_path / "moved")
    path = run / "run.yaml"
    path.write_text(path.read_text().replace(str(folder), str(moved)))
    model, notes = resumed(moved, run, capsys)
    assert_same(model, broken)
    assert notes == []


def test_an_encoder_with_another_configuration_is_refused(folder, run):
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / "encoder" / name
        kept = path.read_text()
        try:
            path.write_text(kept.replace("{", '{"x": 1,', 1))
            with pytest.raises(WeftError, match=f"different contents of the encoder's file {name}"):
                go(folder, run, resume=True)
        finally:
            path.write_text(kept)


CUTS = [(name, share) for share in (0.0, 0.3, 0.9) for name in FILES]


@pytest.mark.parametrize(("name", "share"), some_of(CUTS, 2))
def test_a_truncated_checkpoint_without_checksums(name, share, folder, run, broken, capsys):
    """As an earlier version wrote them: by its form, and the one before serves."""
    for checkpoint in checkpoints(run / "checkpoints"):
        unseal_state(checkpoint)
    path = run / "checkpoints" / "step-00000009" / name
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    alone = shutil.copytree(run, run.parent / "alone")
    shutil.rmtree(alone / "checkpoints" / "step-00000006")
    with pytest.raises(WeftError, match=rf"{name} is damaged"):
        go(folder, alone, resume=True)
    model, (note,) = resumed(folder, run, capsys)
    assert_same(model, broken)
    assert f"{name} is damaged" in note


@pytest.mark.parametrize("damage", ["shape", "dtype", "name", "moments", "loop", "rows"])
def test_other_contents_without_checksums(damage, folder, run):
    checkpoint = run / "checkpoints" / "step-00000009"
    shutil.rmtree(run / "checkpoints" / "step-00000006")
    state = unseal_state(checkpoint)
    path = checkpoint / ("optimizers" if damage == "moments" else "weights")
    path = path.with_suffix(".safetensors")
    tensors = load_file(path)
    first = next(key for key in sorted(tensors) if tensors[key].dim())
    if damage == "loop":
        state["loop"]["steps"] = state["loop"].pop("step")
    elif damage == "rows":
        del state["data"]["rows"]
    elif damage == "name":
        tensors["other"] = tensors.pop(first)
    elif damage == "dtype":
        tensors[first] = tensors[first].double()
    else:
        tensors[first] = tensors[first].flatten()[:1].clone()
    save_file(tensors, path)
    (checkpoint / "state.json").write_text(json.dumps(state))
    with pytest.raises(WeftError, match=r"has shape|does not match the model|is damaged"):
        go(folder, run, resume=True)


def test_a_log_that_is_not_what_it_was(folder, run, broken, capsys):
    for number, told in enumerate(("is damaged or was edited", "lines are missing")):
        copied = shutil.copytree(run, run.parent / f"copied-{number}")
        log = copied / "log.jsonl"
        log.write_bytes(b"") if number else flip(log, 5)
        model, (note,) = resumed(folder, copied, capsys)
        assert_same(model, broken)
        assert told in note
        assert b"\0" not in log.read_bytes()


def test_no_checkpoint_at_all_is_noted(folder, run, broken, capsys):
    shutil.rmtree(run / "checkpoints")
    model, notes = resumed(folder, run, capsys)
    assert_same(model, broken)
    assert any("has no checkpoint: the run starts from the beginning" in note for note in notes)


def test_a_damaged_bundle_is_made_again_from_the_checkpoints(folder, broken, tmp_path):
    """As docs/reference/checksums.md says."""
    run = shutil.copytree(broken[0] / "straight", tmp_path / "run")
    flip(run / "bundle" / "tasks" / "cat.safetensors")
    with pytest.raises(WeftError, match=r"cat.safetensors is damaged"):
        weft.load(run)
    (run / "metrics.json").unlink()
    go(folder, run, resume=True)
    for file in (broken[0] / "straight" / "bundle").rglob("*.*"):
        other = run / "bundle" / file.relative_to(broken[0] / "straight" / "bundle")
        assert other.read_bytes() == file.read_bytes()


def test_a_state_that_was_edited_and_sealed_again_is_one(folder, run):
    """The helper of other tests: a state with its own checksum is read as it is."""
    checkpoint = last_checkpoint(run / "checkpoints")
    edit_state(checkpoint, torch="1.0")
    go(folder, run, resume=True)
    assert yaml.safe_load((run / "run.yaml").read_text())["train"]["steps"] == 20
