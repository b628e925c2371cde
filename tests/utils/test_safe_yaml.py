"""YAML of any origin: PyYAML's values, its errors with their line, and limits on what a text can cost."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.utils import safe_yaml
from weft.utils.safe_yaml import YamlError, parse_yaml, read_yaml

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_was_written_is_read(value):
    assert parse_yaml(yaml.safe_dump(value)) == value


@given(st.text(alphabet="ab:&*-[]{}!'\"\\|>%@`#,? \n\t0x_.1<=~", max_size=40))
def test_every_text_is_read_as_pyyaml_reads_it_or_is_a_yaml_error(text):
    try:
        value = parse_yaml(text)
    except YamlError:
        return
    assert repr(value) == repr(yaml.safe_load(text))


PYYAMLS_OWN = {
    "IndexError of an empty int": ("a: !!int ''", 1, 4),
    "IndexError of an empty float": ("a: 1\nb: !!float ''", 2, 4),
    "KeyError of a bool": ("a: 1\n\nb:\n  c: !!bool x", 4, 6),
    "AttributeError of a timestamp": ("- 1\n- !!timestamp x", 2, 3),
    "ValueError of a date": ("a: 2020-99-99", 1, 4),
    "ValueError of a time zone": ("a: 2001-12-14t21:59:43-99:99", 1, 4),
    "ValueError of hexadecimal digits": ("a: 0x_", 1, 4),
    "ValueError of binary digits": ("a: 0b_", 1, 4),
    "ValueError of a character": ('a: "\\U00110000"', 1, 7),
    "OverflowError of a character": ('a: "\\UFFFFFFFF"', 1, 7),
    "ValueError of a version": (f"%YAML {'9' * 5000}.1\n---\na", 1, 7),
    "a character that is not allowed": ("a: 1\nb: \x1b[31m", 2, 4),
    "a tag of Python": ("a: !!python/object/apply:os.system [ls]", 1, 4),
    "an alias of nothing": ("a: *b", 1, 4),
}


@pytest.mark.parametrize(("text", "line", "column"), PYYAMLS_OWN.values(), ids=PYYAMLS_OWN)
def test_pyyamls_own_errors_have_a_line(text, line, column):
    with pytest.raises(YamlError) as wrong:
        parse_yaml(text)
    assert (wrong.value.line, wrong.value.column) == (line, column)
    assert wrong.value.problem


def laughs(levels: int) -> str:
    """Ten aliases of ten aliases of …: 10^levels values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merges(levels: int) -> str:
    """Each mapping merges the one before it twice."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], y{n}: 1}}" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", [laughs(6), laughs(300), merges(30), merges(300)])
def test_aliases_of_aliases_are_refused_with_their_line(text):
    with pytest.raises(YamlError, match=r"line \d+.*aliases \(\*\) repeat more than 200,000 values"):
        parse_yaml(text)


def test_a_thousand_tasks_may_share_their_settings():
    shared = ", ".join(f"k{n}: {n}" for n in range(50))
    tasks = "\n".join(f"  t{n}: {{<<: *shared, train: {n}.csv}}" for n in range(1000))
    value = parse_yaml(f"x: &shared {{{shared}}}\ntasks:\n{tasks}")
    assert len(value["tasks"]) == 1000
    assert value["tasks"]["t999"] == {**value["x"], "train": "999.csv"}


@pytest.mark.parametrize("text", ["&a [*a]", "a: &x {b: *x}", "a: &x\n  - y: [*x]"])
def test_an_anchor_that_contains_itself(text):
    with pytest.raises(YamlError, match=r"line 1.*contains an alias \(\*\) of itself"):
        parse_yaml(text)


@pytest.mark.parametrize(
    "text", ["[" * 150 + "]" * 150, "[" * 100_000, "{a: " * 5000, "- " * 5000, "? " * 5000]
)
def test_deep_nesting(text):
    with pytest.raises(YamlError, match="nested more than 100 levels deep"):
        parse_yaml(text)


@pytest.mark.parametrize("number", ["0x" + "f" * 500, "1" + ":59" * 200, "9" * 401, "1." + "0" * 500])
def test_numbers_of_hundreds_of_digits(number):
    with pytest.raises(
        YamlError, match=r"line 2, column 4: found a number of \d+ characters; expected at most"
    ):
        parse_yaml(f"a: 1\nb: {number}")


def test_a_text_that_is_too_large(monkeypatch):
    monkeypatch.setattr(safe_yaml, "LARGEST", 10)
    assert parse_yaml("a: 1234567") == {"a": 1234567}
    with pytest.raises(YamlError, match="the text has 11 characters; expected at most 10"):
        parse_yaml("a: 12345678")


def test_files(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\nb: [")
    with pytest.raises(WeftError, match=r"x\.yaml: line 2, column 5: this is not YAML: "):
        read_yaml(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(WeftError, match=r"x\.yaml: byte 3 is not UTF-8"):
        read_yaml(path)
    with pytest.raises(WeftError, match="cannot be read"):
        read_yaml(tmp_path)
    path.write_text("")
    assert read_yaml(path) is None
