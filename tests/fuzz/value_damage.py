"""Damage to nested values, as JSON and YAML hold them: odd values, other types, missing and unknown keys."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

ODD_TEXTS = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "\x00",
        "\x1b[31mred\x1b[0m",
        "\ud800",
        "é",
        "\u202e",
        "a\x7f\x9b",
        "𝔘𝔫𝔦",
        "a" * 5000,
    ),
    *("a" * 300,),
    *("null", "yes", "no", "on", "1", "-1", "1e5", "0x10", "nan", "inf", "1_000", "01", "2024-01-01"),
    *("12:30:45",),
    *("..", ".", "/", "~", "../../../etc/passwd", "/dev/null", "//x", "a/b", "a\\b", "C:\\x", "file:///x"),
    *("http://x",),
    *("$HOME", "${HOME}", "%s", "%n", "{", "}", "{}", "{0}", "{text}", "{text!r:>99}", "{0.__class__}"),
    *("{{text}}",),
    *("*", "*a", "&a", "!!str", "!!python/object/apply:os.system", "<<", "=", "?", "-", "[]", "#", "'"),
    *('"', "`"),
    *("(a+)+$", "(?:x", "[", "\\", "a|" * 50, ".*" * 20, "all", "auto", "none", "encoder", "task"),
    *("train", "label"),
)
ODD_NUMBERS = (
    *(0, -1, 1, 2, 3, 17, 0.0, -0.0, 0.5, -0.5, 1.5, 1e-300, 1e300, 5e-324, 1e5),
    *(2**15, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(2**63)),
    *(-(10**30),),
    *(float("inf"), float("-inf"), float("nan")),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [{}], {"": ""}, [None], ["a", "a"], [1, "a", None]),
    *({"a": {"b": {"c": 1}}},),
    *([0] * 300, {"use": "lora"}, {"path": "x"}, {str(n): n for n in range(100)}),
)


def odd_value(draw: Random) -> Any:
    """Return a value that settings rarely expect."""
    match draw.randrange(8):
        case 0 | 1 | 2:
            return draw.choice(ODD_TEXTS)
        case 3 | 4 | 5:
            return draw.choice(ODD_NUMBERS)
        case 6:
            return copy.deepcopy(draw.choice(ODD_VALUES))
    deep: Any = draw.choice([0, "x", None])
    for _ in range(draw.choice([5, 60])):
        deep = [deep] if draw.random() < 0.5 else {"a": deep}
    return deep


def odd_key(draw: Random, known: str = "") -> str:
    """Return a key that is nearly a known one, or an odd text."""
    if known and draw.random() < 0.6:
        at = draw.randrange(len(known))
        return draw.choice(
            [known[:at] + known[at + 1 :], known.upper(), f"{known} ", f"{known}s", known.replace("_", "-")]
        )
    return str(draw.choice(ODD_TEXTS)) or "x"


def damaged_value(draw: Random, value: Any, times: int = 2, keys: tuple[str, ...] = ()) -> Any:
    """Return a copy of a nested value with one to `times` changes.

    Args:
        draw: the random numbers.
        value: dicts, lists and scalars.
        times: the most changes.
        keys: known names of keys, one of which a change may add somewhere.
    """
    holder = [copy.deepcopy(value)]
    for _ in range(draw.randint(1, times)):
        _change(draw, holder, keys)
    return holder[0]


def _change(draw: Random, holder: list[Any], keys: tuple[str, ...]) -> None:
    places = _places(holder)
    parent, key = draw.choice(places[1:] or places) if draw.random() < 0.97 else places[0]
    old = parent[key]
    if draw.random() < 0.4:
        parent[key] = same_type(draw, old)
        return
    match draw.randrange(9):
        case 0 | 1 | 2:
            parent[key] = odd_value(draw)
        case 3:
            parent[key] = _other_type(draw, old)
        case 4 if parent is not holder:
            del parent[key]
        case 5 if isinstance(parent, dict):
            items = [(odd_key(draw, str(k)) if k == key else k, v) for k, v in parent.items()]
            parent.clear()
            parent.update(items)
        case 6:
            other, at = draw.choice(places)
            parent[key] = copy.deepcopy(other[at])
        case 7 if isinstance(old, dict):
            old[draw.choice(keys) if keys and draw.random() < 0.8 else odd_key(draw)] = odd_value(draw)
        case 7 if isinstance(old, list):
            old.insert(draw.randint(0, len(old)), odd_value(draw))
        case _:
            parent[key] = draw.choice([[old], {"a": old}, [old, old], {str(old)[:50]: old}])


def _places(holder: list[Any]) -> list[tuple[Any, Any]]:
    """Every (container, key) of a nested value, from the outside in."""
    places: list[tuple[Any, Any]] = [(holder, 0)]
    for container, key in places:
        value = container[key]
        if len(places) > 2000:
            break
        if isinstance(value, dict):
            places.extend((value, name) for name in value)
        elif isinstance(value, list):
            places.extend((value, number) for number in range(len(value)))
    return places


def same_type(draw: Random, value: Any) -> Any:
    """Return another value of the same type, which may well be accepted."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([value + 1, value - 1, 2 * value, 0, 1, 2, 5, 12, 100])
    if isinstance(value, float):
        return draw.choice([value / 2, 2 * value, 0.0, 1.0, 0.1, 1e-4, 3.0, -value])
    if isinstance(value, str):
        words = value.split()
        draw.shuffle(words)
        return draw.choice(
            [" ".join(words), value.upper(), f"{value} the cat", value[: len(value) // 2], *ODD_TEXTS[:3]]
        )
    if isinstance(value, list):
        changed = draw.sample(value, len(value))
        return changed[:-1] if draw.random() < 0.3 else changed
    if isinstance(value, dict):
        names = draw.sample(sorted(value, key=str), len(value))
        return {name: value[name] for name in names}
    return value


def _other_type(draw: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return draw.choice([int(value), str(value), "yes"])
    if isinstance(value, int | float):
        return draw.choice([str(value), -value, value + 0.5, bool(value), [value], f"{value} "])
    if isinstance(value, str):
        return draw.choice(
            [[value], value.split(), list(value[:20]), len(value), {value[:20]: value}, ascii(value)]
        )
    return draw.choice([str(value)[:200], len(value) if value is not None else 0, None, 1, True])


def as_json(draw: Random, value: Any) -> str:
    """Return a value as JSON; NaN and Infinity as Python writes them."""
    return json.dumps(value, ensure_ascii=draw.random() < 0.7, indent=draw.choice([None, 1]))


def to_bytes(text: str) -> bytes:
    """Return a text as UTF-8; halves of surrogate pairs become the bytes that no decoder takes."""
    return text.encode("utf-8", "surrogatepass")
