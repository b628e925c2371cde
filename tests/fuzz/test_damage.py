"""Damage is a function of the random numbers, changes something and never fails."""

from __future__ import annotations

import json
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.byte_damage import damaged_bytes, damaged_lines, reencoded
from tests.fuzz.folder_damage import damage_folder
from tests.fuzz.tensor_damage import damaged_tensors
from tests.fuzz.value_damage import as_json, damaged_value, to_bytes
from tests.fuzz.yaml_damage import damaged_yaml

SEEDS = st.integers(0, 10**6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def tensors(header: dict, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


SOUND = tensors(
    {
        "__metadata__": {"weft": json.dumps({"tasks": ["a"]})},
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    },
    struct.pack("<2f", 1, 2),
)


@given(SEEDS, st.binary(max_size=200))
def test_bytes(seed, data):
    for damage in (damaged_bytes, damaged_tensors, reencoded):
        assert damage(Random(seed), data) == damage(Random(seed), data)


@given(SEEDS, st.text(max_size=100))
def test_lines(seed, text):
    assert damaged_lines(Random(seed), text) == damaged_lines(Random(seed), text)


@given(SEEDS, VALUES)
def test_values(seed, value):
    before = repr(value)
    changed = damaged_value(Random(seed), value, 3, ("a", "b"))
    assert repr(changed) == repr(damaged_value(Random(seed), value, 3, ("a", "b")))
    assert repr(value) == before  # the value itself is not changed
    assert to_bytes(as_json(Random(seed), changed))


@given(SEEDS, VALUES)
def test_yaml(seed, value):
    assert damaged_yaml(Random(seed), value, ("a",)) == damaged_yaml(Random(seed), value, ("a",))


def test_damage_changes_something():
    """Nearly always: a flipped bit may be flipped back."""
    lists = [damaged_tensors(Random(seed), SOUND) for seed in range(300)]
    assert sum(data == SOUND for data in lists) < 15
    value = {"a": [1, "b", {"c": 2.5}], "d": None}
    assert sum(damaged_value(Random(seed), value) == value for seed in range(300)) < 60


@pytest.mark.parametrize("seed", range(40))
def test_folders(tmp_path, seed):
    """A folder can be damaged again and again, whatever is left of it; what it links to stays as it is."""
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    folder = tmp_path / "folder"
    (folder / "tasks").mkdir(parents=True)
    for name in ("bundle.json", "run.yaml", "log.jsonl", "tasks/a.safetensors", "model.bin"):
        (folder / name).write_bytes(SOUND if name.endswith("safetensors") else b'{"a": [1, 2]}\n')
    draw = Random(seed)
    for _ in range(12):
        damage_folder(draw, folder)
    assert outside.read_text() == "{}"
