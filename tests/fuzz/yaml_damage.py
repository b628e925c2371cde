"""Damage to YAML: to its values, and to its text (indents, tags, aliases, scalars that PyYAML fails on)."""

from __future__ import annotations

from random import Random
from typing import Any

import yaml

from tests.fuzz.byte_damage import damaged_bytes, damaged_lines, reencoded
from tests.fuzz.value_damage import as_json, damaged_value, to_bytes

SCALARS = (
    *("1" * 5000, "0x", "0b", "0o8", "1_", "._", "-.", "+", "1:99:99", "-1:60", "1e", ".inf", "-.INF"),
    *(".nan", "1.e+"),
    *("2024-13-45", "2024-02-30", "2024-01-01T25:61:61Z", "2024-01-01 00:00:00 +99:99", "0000-00-00", "="),
    *("<<", "~"),
    *("!!int x", "!!int ''", "!!float .", "!!float x", "!!bool maybe", "!!null x", "!!timestamp x"),
    *("!!timestamp 1",),
    *("!!binary é", "!!binary x", "!!set {a}", "!!set [a]", "!!omap [1]", "!!omap {a: 1}", "!!pairs x"),
    *("!!str [a]",),
    *("!!map x", "!!seq x", "!!merge x", "!x y", "!<x> y", "!!", "!", "!<> y", "!!%FF x", "%YAML 9.9"),
    *("%TAG ! x",),
    *("*undefined", "*", "&", "&a *a", "&a [*a]", "&a {b: *a}", "|", ">", "|9", ">-+", "|0", "[", "{"),
    *("]", "}", "[,"),
    *("? a", "? [a]", "{[a]: b}", "{? }", "- - -", "a: b: c", "@a", "`a", '"', "'", '"\\x"', '"\\ud800"'),
    *('"\\UFFFFFFFF"',),
    *('"\\u0000"', "'\u2028'", "\t", "\x07", "...", "--- x", "---"),
    *("!!python/object/apply:os.system ['exit 3']",),
    *("!!python/name:os.system", "!!python/tuple [1]", "!!python/object:weft.Task {}", "{a: 1, a: 2}"),
    *("{1: 2, '1': 3}",),
    *("{null: 1}", "{true: 1}", "{1.5: 1}", "{2024-01-01: 1}", "{!!binary eA==: 1}", "{? {a: 1} : 2}"),
    *("!!set {a, b}",),
)
"""Scalars and small documents, each of which is odd to some part of a YAML parser."""


def damaged_yaml(draw: Random, value: Any, keys: tuple[str, ...] = ()) -> bytes:
    """Return a nested value as YAML that is damaged in its values, in its text, or in both.

    Args:
        draw: the random numbers.
        value: dicts, lists and scalars.
        keys: known names of keys, which a change may add.
    """
    how = draw.randrange(12)
    if how <= 5:
        return to_bytes(_dumped(draw, damaged_value(draw, value, 3, keys)))
    text = _dumped(draw, value)
    if how <= 8:
        text = _other_scalar(draw, text)
    elif how == 9:
        for _ in range(draw.randint(1, 3)):
            text = damaged_lines(draw, text)
    elif how == 10:
        return damaged_bytes(draw, to_bytes(text))
    else:
        text = draw.choice([_bomb, _anchored, _two_documents])(draw, text)
    data = to_bytes(text)
    return reencoded(draw, data) if draw.random() < 0.05 else data


def _dumped(draw: Random, value: Any) -> str:
    try:
        return yaml.safe_dump(
            value, sort_keys=False, allow_unicode=draw.random() < 0.5, default_flow_style=draw.random() < 0.1
        )
    except (yaml.YAMLError, UnicodeError, RecursionError):
        return as_json(draw, value)  # JSON is YAML


def _other_scalar(draw: Random, text: str) -> str:
    """Replace the value of a line, or a whole line, by one of `SCALARS`."""
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    scalar = draw.choice(SCALARS)
    match draw.randrange(4):
        case 0:
            lines[at] = scalar
        case 1:
            lines[at] = f"{key[: len(key) - len(key.lstrip())]}{scalar}: 1"
        case _:
            lines[at] = f"{key}{colon or ':'} {scalar}"
    return "\n".join(lines)


def _bomb(draw: Random, text: str) -> str:
    """Put aliases of aliases in front: few bytes that stand for many values."""
    levels, width = draw.choice([(3, 3), (6, 9), (9, 9), (20, 2), (30, 2)])
    lines = [f"x0: &x0 [{', '.join(['lol'] * width)}]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * width)}]" for n in range(1, levels)]
    place = draw.choice(
        ["train: *x{}\n", "tasks: {{a: {{labels: *x{}}}}}\n", "method: {{use: *x{}}}\n", "x: *x{}\n"]
    )
    return "\n".join(lines) + "\n" + (text if draw.random() < 0.5 else "") + place.format(levels - 1)


def _anchored(draw: Random, text: str) -> str:
    """Give one line an anchor and let another one be its alias, or merge it."""
    lines = text.split("\n")
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    key, colon, value = lines[at].partition(":")
    lines[at] = f"{key}{colon} &a{value}"
    key, colon, _ = lines[to].partition(":")
    lines[to] = draw.choice(
        [f"{key}{colon} *a", f"{key}{colon} {{<<: *a}}", f"{key}{colon} {{<<: [*a, *a]}}", "<<: *a"]
    )
    return "\n".join(lines)


def _two_documents(draw: Random, text: str) -> str:
    return draw.choice(
        [f"---\n{text}---\n{text}", f"{text}...\n", f"--- {text}", f"{text}---\n", f"%YAML 1.1\n---\n{text}"]
    )
