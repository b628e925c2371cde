"""Wrong settings and keys are refused with what was expected."""

from __future__ import annotations

import pytest

import weft
from weft.serving.http.keys import check_key, read_keys
from weft.serving.refused import Refused
from weft.serving.settings import ServeSettings


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"precision": "half"}, "float32, bf16 or int8"),
        ({"log": "all"}, "requests, errors or none"),
        ({"queue": 0}, "at least 1"),
        ({"texts": 10, "queue": 5}, "at least as many texts"),
        ({"deadline": 0.0}, "more than 0"),
        ({"spare": -1}, "0 or more"),
        ({"qeue": 5}, "did you mean 'queue'"),
    ],
)
def test_wrong_settings(values, words):
    with pytest.raises(weft.WeftError, match=words):
        ServeSettings.of(values)


def test_keys_come_from_a_file_and_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    file.write_text(f"# for the shop\n{'a' * 16}\n\n  {'b' * 20}  \n")
    monkeypatch.setenv("WEFT_API_KEYS", f"{'c' * 16},{'a' * 16}")
    assert read_keys("--keys", file, "WEFT_API_KEYS") == ("c" * 16, "a" * 16, "b" * 20)
    monkeypatch.delenv("WEFT_API_KEYS")
    assert read_keys("--keys", None, "WEFT_API_KEYS") == ()


@pytest.mark.parametrize(
    ("contents", "words"),
    [("", "one key per line"), ("s3cret", "at least 16"), ("a b" * 9, "without spaces")],
    ids=["empty", "short", "spaces"],
)
def test_bad_key_files(tmp_path, contents, words):
    file = tmp_path / "keys"
    file.write_text(contents)
    with pytest.raises(weft.WeftError, match=words) as caught:
        read_keys("--keys", file, "NONE")
    assert not contents or contents not in str(caught.value)  # a key is never printed
    with pytest.raises(weft.WeftError, match="cannot be read"):
        read_keys("--keys", tmp_path / "missing", "NONE")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "no_key"),
        ("", "no_key"),
        ("Basic xyz", "no_key"),
        ("Bearer ", "no_key"),
        ("Bearer no", "wrong_key"),
    ],
)
def test_keys_are_checked(header, code):
    with pytest.raises(Refused) as caught:
        check_key(header, ("k" * 16,))
    assert caught.value.code == code
    check_key(f"bearer {'k' * 16}", ("x" * 16, "k" * 16))
    check_key(header, ())
