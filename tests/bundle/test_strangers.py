"""Bundles of strangers: no code of theirs runs, and links, odd names and absurd numbers are refused."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import weft
from tests.support.apart import LORA, A, B
from tests.support.planted import change, forget_checksums, plant_code, plant_pickle, trace_of
from weft.bundle.compact import compact_bundle
from weft.bundle.manifest import METADATA
from weft.errors import WeftError


@pytest.fixture(scope="module")
def whole(encoder, tmp_path_factory):
    """A bundle with its encoder."""
    model = weft.Model(encoder, [A, B], LORA, max_length=16)
    return model.save(tmp_path_factory.mktemp("whole") / "bundle", with_encoder=True)


@pytest.fixture
def bundle(whole, tmp_path):
    return forget_checksums(shutil.copytree(whole, tmp_path / "bundle"))


@pytest.fixture
def trace(tmp_path, monkeypatch):
    return trace_of(tmp_path, monkeypatch)


def other(bundle, tmp_path):
    """A second bundle with different tasks, on the same encoder."""
    second = weft.remove_task(bundle, "a", tmp_path / "second").folder
    weft.remove_task(bundle, "b", tmp_path / "first")
    return tmp_path / "first", second


def uses(bundle, tmp_path):
    """Everything that reads a bundle's encoder."""
    return {
        "load": lambda: weft.load(bundle),
        "predict": lambda: weft.load(bundle).predict("a", ["a cat"]),
        "compact": lambda: compact_bundle(bundle, tmp_path / "out"),
        "--encoder": lambda: weft.load(bundle, encoder=bundle / "encoder"),
    }


@pytest.mark.parametrize("use", ["load", "predict", "compact", "--encoder"])
def test_code_in_the_encoder_of_a_bundle_does_not_run(bundle, tmp_path, trace, use):
    plant_code(bundle / "encoder", trace)
    with pytest.raises(WeftError, match="which weft does not run"):
        uses(bundle, tmp_path)[use]()
    trace.assert_clean()


def test_a_known_family_is_used_without_its_code(bundle, tmp_path, trace):
    plant_code(bundle / "encoder", trace, native=True)
    model = weft.load(bundle)
    model.predict("a", ["a cat"])
    model.save(tmp_path / "again", with_encoder=True)
    trace.assert_clean()
    for file in ("config.json", "tokenizer_config.json"):
        assert "evil." not in (tmp_path / "again" / "encoder" / file).read_text()


def test_assembled_bundles_with_code(bundle, tmp_path, trace):
    first, second = other(bundle, tmp_path)
    for folder in (first, second):
        plant_code(forget_checksums(folder) / "encoder", trace)
    weft.assemble([first, second], tmp_path / "joined")  # copies files, and loads no encoder
    with pytest.raises(WeftError, match="which weft does not run"):
        weft.load(tmp_path / "joined")
    trace.assert_clean()


def test_a_pickle_in_the_place_of_the_encoders_weights(bundle, trace):
    weights = bundle / "encoder" / "model.safetensors"
    plant_pickle(bundle / "encoder" / "pytorch_model.bin", trace, load_file(weights))
    weights.unlink()
    with pytest.raises(
        WeftError, match=r"pytorch_model\.bin.*weft runs no code|model\.safetensors is missing"
    ):
        weft.load(bundle)
    trace.assert_clean()


@pytest.mark.parametrize("place", ["extra", "tasks/c.safetensors", "encoder/vocab.txt"])
@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_links_and_pipes_anywhere_are_refused_by_every_use(bundle, tmp_path, place, kind):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    if kind == "pipe":
        os.mkfifo(bundle / place)
    else:
        (bundle / place).symlink_to(secret / "key" if kind == "file" else secret)
    out = tmp_path / "out"
    for use in (
        lambda: weft.load(bundle),
        lambda: weft.remove_task(bundle, "a", out),
        lambda: weft.copy_task(bundle, "a", bundle, rename="z", out=out),
        lambda: weft.assemble([bundle, bundle], out),
    ):
        with pytest.raises(WeftError, match=rf"{place} is a (link to .*secret|named pipe)"):
            use()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "secret"]


def test_two_links_to_the_bundle_itself_end_at_once(bundle, tmp_path):
    for name in ("one", "two"):
        (bundle / name).symlink_to(".")
    with pytest.raises(WeftError, match="one is a link"):
        weft.remove_task(bundle, "a", tmp_path / "out")


def test_the_bundle_of_a_run_may_not_be_a_link_and_its_folder_may(bundle, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "bundle").symlink_to(bundle)
    with pytest.raises(WeftError, match="bundle is a link to"):
        weft.load(tmp_path / "run")
    (tmp_path / "named").symlink_to(bundle)
    assert len(weft.load(tmp_path / "named").tasks) == 2


def test_a_bundle_in_the_cache_of_the_hub(bundle, tmp_path):
    """Its files are links to blobs; a copy of it has files of its own."""
    repository = tmp_path / "models--org--bundle"
    for number, file in enumerate(sorted(path for path in bundle.rglob("*") if path.is_file())):
        blob, link = (
            repository / "blobs" / f"{number:064x}",
            repository / "snapshots" / "1" / file.relative_to(bundle),
        )
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        file.rename(blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    snapshot = repository / "snapshots" / "1"
    assert len(weft.load(snapshot).tasks) == 2
    copy = weft.remove_task(snapshot, "a", tmp_path / "copy").folder
    assert not any(path.is_symlink() for path in copy.rglob("*"))
    assert len(weft.load(copy).tasks) == 1


ABSURD = {
    "a task outside": (
        {"tasks": ["../../etc/x", "b"]},
        r"tasks: '\.\./\.\./etc/x' is not the name of a task",
    ),
    "a task with a control character": ({"tasks": ["a\x1b[2J"]}, r"'a\\x1b\[2J' is not the name of a task"),
    "endless rows": ({"max_length": 10**15}, "max_length is 1000000000000000; expected a number of tokens"),
    "rows of true": ({"max_length": True}, "max_length is True"),
    "a seed of hundreds of bits": (
        {"seed": 2**200},
        "seed is .*; expected a whole number of at most 64 bits",
    ),
    "a dropout of 1": (
        {"heads": {"pool": "mean", "dropout": 1}},
        "heads.dropout is 1; expected a number from 0",
    ),
    "a dropout of text": ({"heads": {"pool": "mean", "dropout": "x"}}, "heads.dropout is 'x'"),
    "pool of a list": ({"heads": {"pool": [], "dropout": 0}}, r"heads.pool is \[\]"),
    "an encoder of a number": ({"encoder": {"name": 3, "sha256": "", "included": None}}, "encoder.name is 3"),
    "an encoder with NUL": ({"encoder": {"name": "a\0", "sha256": "x", "included": None}}, "encoder.name is"),
    "a deep method": ({"method": json.loads("[" * 300 + "]" * 300)}, "nested more than 100 levels deep"),
    "an absurd rank": (
        {"method": {"use": "lora", "rank": 60_000}},
        "method.rank is 60,000; the longest side of a tensor of it is",
    ),
    "an absurd rank of one site": (
        {"method": {"use": "lora", "rank_pattern": {"0/query": 60_000}}},
        "method.rank_pattern.0/query is 60,000",
    ),
}


@pytest.mark.parametrize("case", ABSURD)
def test_values_that_weft_cannot_have_written(bundle, case):
    values, words = ABSURD[case]
    change(bundle / "bundle.json", **values)
    with pytest.raises(WeftError, match=words) as wrong:
        weft.load(bundle)
    assert len(str(wrong.value)) < 500


@pytest.mark.parametrize(("key", "value"), [("size", 900_000), ("hidden", 50_000)])
def test_a_head_that_is_larger_than_its_file(bundle, key, value):
    path = bundle / "tasks" / "a.safetensors"
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()[METADATA])
    facts["task"] |= {key: value, "layers": 2}
    if key == "size":
        facts["task"]["labels"] = []
    save_file(load_file(path), path, {METADATA: json.dumps(facts)})
    with pytest.raises(
        WeftError, match=rf"the task's {key} is {value:,}; the longest side of a tensor of it is \d+"
    ):
        weft.load(bundle)


def test_wide_methods_are_loaded(encoder, tmp_path):
    """A rank above the ordinary, which the tensors have."""
    model = weft.Model(encoder, [A], {"use": "lora", "rank": 5000, "layers": [0], "sites": ["query"]})
    bundle = model.save(tmp_path / "wide")
    state = weft.load(bundle).state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
