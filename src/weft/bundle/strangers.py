"""Checks of a bundle that may come from a stranger, before anything of it is used. No torch is imported.

A bundle must hold plain files, and every value of its bundle.json must be one that weft could have written: a
name with `..` in it would lead to files outside, and absurd numbers to errors or endless work much later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from weft.errors import WeftError
from weft.tasks.checks import NAME
from weft.utils.plain_files import check_not_linked, check_plain_folder
from weft.utils.safe_json import DEPTH, is_deep

ORDINARY = 4096
"""Sizes up to this are not compared with the tensors: they cost little."""
LONGEST_ROW = 1_000_000
"""The most tokens of a row; no encoder reads as many."""


def check_plain_bundle(folder: Path, path: Path) -> None:
    """Refuse a bundle with links, named pipes or devices in it.

    Args:
        folder: the folder that the user has named, which may itself be a link.
        path: the bundle: that folder, or `bundle` in the folder of a run.
    """
    if path != folder:
        check_not_linked(path, "a run")
    check_plain_folder(path, "a bundle")


def check_values(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse values of a bundle.json that weft could not have written; the fields are known to be there.

    Args:
        path: the bundle.json, for messages.
        manifest: its contents.
    """
    if is_deep(manifest):
        raise WeftError(f"{path} is nested more than {DEPTH} levels deep")
    for place, (fits, expected) in _VALUES.items():
        section, _, name = place.partition(".")
        value = manifest[section][name] if name else manifest[section]
        if not fits(value):
            raise WeftError(f"{path}: {place} is {_shown(value)}; expected {expected}")
    check_method_sizes(path, manifest)
    for name in manifest["tasks"]:
        if not NAME.fullmatch(name):
            raise WeftError(
                f"{path}: tasks: {_shown(name)} is not the name of a task; expected letters, digits, _ and "
                "-, beginning with a letter or digit"
            )


def check_method_sizes(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a method whose widths or ranks are larger than any tensor of the bundle.

    A model is built before its tensors are compared, and a few digits would allocate all memory.

    Args:
        path: the bundle.json.
        manifest: its contents.
    """
    key, number = max(_sizes("method", manifest["method"]), key=lambda size: size[1], default=("", 0))
    if number > ORDINARY:
        files = [path.parent / "shared.safetensors", *sorted((path.parent / "tasks").glob("*.safetensors"))]
        _check_side(path, key, number, files)


def check_task_sizes(path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a task whose head would be larger than any tensor of its file.

    Args:
        path: the task's file.
        settings: the task's settings in the file.
    """
    for key in ("size", "hidden"):
        number = settings.get(key)
        if isinstance(number, int) and number > ORDINARY:
            _check_side(path, f"the task's {key}", number, [path])


def _sizes(key: str, value: Any) -> Iterator[tuple[str, int]]:
    """Yield every whole number of nested settings that may be a size, with its key."""
    if isinstance(value, dict):
        for inner, item in value.items():
            if inner not in ("steps", "seed"):
                yield from _sizes(f"{key}.{inner}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _sizes(key, item)
    elif _is_whole(value):
        yield key, value


def _check_side(path: Path, key: str, number: int, files: Sequence[Path]) -> None:
    longest = 0
    for file in files:
        try:
            with safe_open(file, "np") as tensors:
                for name in tensors.keys():  # noqa: SIM118  (a safetensors file is not a dict)
                    longest = max(longest, *tensors.get_slice(name).get_shape(), 0)
        except (SafetensorError, OSError):
            return  # reported when the file is read
    if number > longest:
        raise WeftError(f"{path}: {key} is {number:,}; the longest side of a tensor of it is {longest:,}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_length(value: Any) -> bool:
    return _is_whole(value) and 2 <= value <= LONGEST_ROW


def _is_seed(value: Any) -> bool:
    return _is_whole(value) and -(2**63) <= value < 2**64


def _is_dropout(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 4096 and "\0" not in value


def _is_text_or_none(value: object) -> bool:
    return value is None or _is_text(value)


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "encoder.name": (_is_text, "the encoder's name, folder or hub id"),
    "encoder.sha256": (_is_text_or_none, "the hash of its weights"),
    "encoder.included": (_is_text_or_none, "the hash of the included weights, or null"),
    "heads.pool": (_is_text, "what heads read"),
    "heads.dropout": (_is_dropout, "a number from 0 on, below 1"),
    "max_length": (_is_length, f"a number of tokens from 2 to {LONGEST_ROW:,}"),
    "seed": (_is_seed, "a whole number of at most 64 bits"),
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
