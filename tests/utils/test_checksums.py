"""Checksums of files, and of records that hold their own."""

import hashlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.utils.checksums import file_crc32, file_problem, file_sha256, is_sealed, sealed, start_sha256

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(st.text(min_size=1).filter(lambda key: key != "sha256"), VALUES, max_size=4)


@given(RECORDS)
def test_a_record_is_sealed_through_json_and_any_indentation(record):
    seal = sealed(record)
    assert is_sealed(seal)
    for text in (json.dumps(seal), json.dumps(seal, indent=3, sort_keys=True)):
        assert is_sealed(json.loads(text))
    assert sealed(seal) == seal  # sealing twice is sealing once
    assert not is_sealed(record)


@given(RECORDS, st.data())
def test_another_value_or_key_breaks_the_seal(record, data):
    seal = sealed(record)
    key = data.draw(st.sampled_from(sorted(seal)))
    other = data.draw(VALUES)
    if other != seal[key] or type(other) is not type(seal[key]):
        assert is_sealed({**seal, key: other}) == (json.dumps(other) == json.dumps(seal[key]))
    assert not is_sealed({name: value for name, value in seal.items() if name != key})


def test_tuples_and_numbers_as_keys_are_what_json_makes_of_them():
    assert is_sealed(json.loads(json.dumps(sealed({"a": (1, 2), "b": {3: 0.1}, "c": float("-inf")}))))


@given(st.binary(max_size=300), st.integers(0, 300))
def test_the_sums_of_a_file(tmp_path_factory, content, size):
    path = tmp_path_factory.mktemp("sums") / "file"
    path.write_bytes(content)
    assert file_sha256(path) == hashlib.sha256(content).hexdigest()
    assert int(file_crc32(path), 16) == zlib.crc32(content)
    expected = hashlib.sha256(content[:size]).hexdigest() if size <= len(content) else None
    assert start_sha256(path, size) == expected


def test_a_sum_over_several_blocks(tmp_path):
    content = bytes(range(256)) * 9000  # more than two blocks
    (tmp_path / "file").write_bytes(content)
    assert int(file_crc32(tmp_path / "file"), 16) == zlib.crc32(content)
    assert start_sha256(tmp_path / "file", 2_000_000) == hashlib.sha256(content[:2_000_000]).hexdigest()
    assert start_sha256(tmp_path / "none", 0) is None


@pytest.mark.parametrize("expected", ["0" * 64, None, 3, {}])
def test_what_is_wrong_with_a_file(tmp_path, expected):
    path = tmp_path / "file"
    assert file_problem(path, expected) == f"{path} is missing"
    assert "cannot be read" in file_problem(tmp_path, expected)
    path.write_bytes(b"x")
    assert f"{path} is damaged" in file_problem(path, expected)
    assert file_problem(path, file_sha256(path)) is None
    assert file_problem(path, "a", actual="a") is None  # known, and not read again
