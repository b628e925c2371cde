"""The checksums of a bundle: always those of its files, and what is said where they are not."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import weft
from tests.support.apart import LORA, A, B, C, logits
from tests.support.sealing import contents_of, edit, reseal, unseal
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.bundle.compact import compact_bundle
from weft.bundle.manifest import read_manifest, task_file
from weft.bundle.one_task import hashes, with_settings
from weft.cli import run
from weft.errors import WeftError, command_line
from weft.utils.checksums import is_sealed


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def assert_listed(bundle):
    """bundle.json has the sha256 of every file, and its own."""
    contents = contents_of(bundle)
    assert contents["files"] == {k: v for k, v in hashes(bundle).items() if k != "bundle.json"}
    assert is_sealed(contents)


@pytest.fixture
def whole(encoder, tmp_path):
    """A bundle with its encoder."""
    return scramble(weft.Model(encoder, [A, B, C], LORA), 3).save(tmp_path / "whole", with_encoder=True)


def test_every_writer_keeps_them(make, whole, tmp_path):
    bundle = make("one", [A, B])
    assert_listed(bundle)
    assert_listed(whole)
    for name, method in (("full", "full"), ("separate", "separate")):
        assert_listed(make(name, [A, B], method))
    weft.copy_task(whole, "c", bundle)
    assert_listed(bundle)
    weft.remove_task(whole, "b", whole)
    assert_listed(whole)
    with_settings(whole, [weft.load(whole).tasks[0]])
    assert_listed(whole)
    weft.assemble([whole, make("two", [B])], tmp_path / "joined")
    assert_listed(tmp_path / "joined")
    weft.assemble([make("3", [A], {"use": "lora", "rank": 3}), make("4", [B])], tmp_path / "unified")
    assert_listed(tmp_path / "unified")
    compact_bundle(make("gated", [A, B], {"use": "lora", "rank": 2, "l0": {"steps": 1}}), tmp_path / "small")
    assert_listed(tmp_path / "small")


def test_a_flipped_bit_anywhere_is_named(whole):
    files = sorted(name for name in hashes(whole) if name != "bundle.json")
    assert {"encoder/config.json", "encoder/tokenizer.json", "encoder/model.safetensors"} < set(files)
    for name in files:
        for at in (0, 9, -1):
            flip(whole / name, at)
            with pytest.raises(WeftError, match=r"(?s)is damaged or was replaced.*restore it from") as raised:
                weft.load(whole)
            assert str(whole / name) in str(raised.value)
            flip(whole / name, at)
    weft.load(whole)


def test_a_flipped_bit_in_every_byte_of_the_manifest(make):
    """Some change no value (the case of an exponent); all others are noticed."""
    bundle = make("one", [A])
    path = bundle / "bundle.json"
    data, expected, told = path.read_bytes(), contents_of(bundle), set()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(bytes(changed))
        try:
            assert read_manifest(bundle) == expected, at
        except WeftError as wrong:
            told.add(str(wrong).partition(": ")[0])
    assert all("bundle.json" in line for line in told)


def test_what_to_do_next(make, tmp_path):
    bundle = make("one", [A, B])
    flip(task_file(bundle, "b"))
    with command_line(), pytest.raises(WeftError, match=rf"weft task remove {bundle} b --out NEW"):
        weft.load(bundle)
    with pytest.raises(WeftError, match=r"weft.remove_task\(.*'b', 'NEW'\)"):
        weft.load(bundle)
    # nothing is lost of the other task
    before = logits(weft.load(make("same", [A, B], seed=0)), "a").shape
    weft.remove_task(bundle, "b", tmp_path / "rest")
    assert logits(weft.load(tmp_path / "rest"), "a").shape == before
    assert load_file(task_file(tmp_path / "rest", "a")).keys() == load_file(task_file(bundle, "a")).keys()
    with pytest.raises(WeftError, match=r"b.safetensors is damaged"):
        weft.remove_task(bundle, "a", tmp_path / "no")
    other = make("other", [C])
    weft.copy_task(bundle, "a", other)
    assert [task.name for task in weft.load(other).tasks] == ["c", "a"]
    with pytest.raises(WeftError, match=r"b.safetensors is damaged"):
        weft.copy_task(bundle, "b", other)


def test_an_edit_of_the_manifest(make):
    bundle = make("one", [A])
    path, contents = bundle / "bundle.json", contents_of(bundle)
    path.write_text(json.dumps({**contents, "max_length": 7}))
    with pytest.raises(WeftError, match=r"(?s)damaged or was edited.*delete its keys 'files' and 'sha256'"):
        weft.load(bundle)
    for key in ("files", "sha256"):  # half of the record is none
        path.write_text(json.dumps({k: v for k, v in contents.items() if k != key}))
        with pytest.raises(WeftError, match="damaged or was edited"):
            weft.load(bundle)
    edited = {k: v for k, v in contents.items() if k not in ("files", "sha256")}
    path.write_text(json.dumps({**edited, "max_length": 7}))
    assert weft.load(bundle).max_length == 7
    path.write_text(json.dumps(contents, indent=8))  # other spaces are no change
    weft.load(bundle)


def test_a_bundle_without_checksums_loads_and_gets_them(whole, make, tmp_path):
    old = unseal(whole)
    weft.load(old)
    weft.remove_task(old, "c", tmp_path / "new")
    assert_listed(tmp_path / "new")
    weft.assemble([unseal(make("one", [C])), tmp_path / "new"], tmp_path / "joined")
    assert_listed(tmp_path / "joined")


def test_files_of_the_user_may_change(whole):
    for name in ("notes.txt", "encoder/.DS_Store"):
        (whole / name).write_text("mine")
    weft.remove_task(whole, "c", whole)
    for name in ("notes.txt", "encoder/.DS_Store"):
        (whole / name).write_text("mine, changed")
    assert [task.name for task in weft.load(whole).tasks] == ["a", "b"]
    assert (whole / "notes.txt").read_text() == "mine, changed"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_the_encoder_outside_is_verified_too(name, tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    bundle = weft.Model(encoder, [A], LORA).save(tmp_path / "bundle")
    expected = weft.load(bundle).predict([("a", "the cat")])
    text = (encoder / name).read_text()
    (encoder / name).write_text(text + " ")  # means the same, but that is not known
    with pytest.raises(WeftError, match=rf"(?s){name} is damaged or was replaced.*encoder='") as raised:
        weft.load(bundle)
    assert str(bundle / "bundle.json") in str(raised.value)
    model = weft.load(bundle, encoder=encoder)
    assert model.predict([("a", "the cat")]) == expected
    model.save(tmp_path / "again")  # which names the encoder as it was
    (encoder / name).write_text(text)
    assert weft.load(tmp_path / "again").predict([("a", "the cat")]) == expected
    (encoder / name).unlink()
    with pytest.raises(WeftError, match=rf"(?s){name} is missing|has no {name}"):
        weft.load(bundle)


def test_damaged_weights_of_the_encoder_outside_are_named(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    bundle = weft.Model(encoder, [A], LORA).save(tmp_path / "bundle")
    weights = encoder / "model.safetensors"
    for at in (3, -1):  # the size of the header, a number
        flip(weights, at)
        with pytest.raises(WeftError, match=r"encoder/model.safetensors is damaged or was replaced"):
            weft.load(bundle)
        flip(weights, at)
    weft.load(bundle)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.bool]
)
def test_other_dtypes_are_refused(dtype, make):
    bundle = make("one", [A, B])
    file = task_file(bundle, "b")
    with safe_open(file, "pt") as opened:
        metadata, tensors = opened.metadata(), {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    first = sorted(tensors)[0]
    save_file({**tensors, first: tensors[first].to(dtype)}, file, metadata)
    reseal(bundle)
    copying = make("other", [A]), make("third", [C])
    for call in (
        lambda: weft.load(bundle),
        lambda: weft.copy_task(bundle, "b", copying[0]),
        lambda: weft.assemble([bundle, copying[1]], bundle.parent / "joined"),
    ):
        with pytest.raises(WeftError, match=rf"b.safetensors: '{first}' has dtype \w+; expected float32"):
            call()
    save_file({**tensors, first: tensors[first].flatten()[:-1]}, file, metadata)
    with pytest.raises(WeftError, match=rf"b.safetensors: '{first}' has shape"):
        weft.load(reseal(bundle))


def test_a_model_in_half_precision_is_saved_in_float32(make, tmp_path):
    model = weft.load(make("one", [A])).to(torch.bfloat16)
    model.save(tmp_path / "half")
    assert {t.dtype for t in load_file(task_file(tmp_path / "half", "a")).values()} == {torch.float32}
    weft.load(tmp_path / "half")


def test_a_task_that_the_record_does_not_list(make):
    bundle = make("one", [A, B])
    files = contents_of(bundle)["files"]
    edit(bundle, files={name: sha256 for name, sha256 in files.items() if "b.saf" not in name})
    with pytest.raises(WeftError, match=r"b.safetensors is damaged or was replaced"):
        weft.load(bundle)
    shutil.rmtree(bundle / "tasks")
    with pytest.raises(WeftError, match=r"a.safetensors is missing"):
        weft.load(bundle)


def test_a_mistake_that_damage_made_is_reported_as_damage(make, capsys):
    """A label's name, changed in the header of a task's file: the request is right and the file is not."""
    bundle = make("one", [A])
    path = task_file(bundle, "a")
    path.write_bytes(path.read_bytes().replace(b'\\"name\\": \\"a\\"', b'\\"name\\": \\"b\\"'))
    assert run(["predict", str(bundle), "--text", "the cat", "--task", "a"]) == 2
    assert f"{path} is damaged or was replaced" in capsys.readouterr().err
    reseal(bundle)
    assert run(["predict", str(bundle), "--text", "the cat", "--task", "q"]) == 2  # damaged, too, but sealed
    assert f"{path} holds the task 'b'" in capsys.readouterr().err
