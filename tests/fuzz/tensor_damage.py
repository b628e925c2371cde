"""Damage to safetensors files: the header (names, dtypes, shapes, offsets, metadata) and the numbers."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

from tests.fuzz.byte_damage import damaged_bytes
from tests.fuzz.value_damage import damaged_value

DTYPES = (
    *("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL", "F8_E4M3", "F4", "C64", "X"),
    *("",),
)
SHAPES = (
    *([], [0], [1], [-1], [2**40, 2**40], [1, 1, 1, 1, 1, 1, 1, 1, 1], ["2"], None, [2.5], [2**63]),
    *([10**30],),
)
ODD_FLOATS = (float("nan"), float("inf"), float("-inf"), 3.4e38, 1e-45, -0.0)


def damaged_tensors(draw: Random, data: bytes) -> bytes:
    """Return the bytes of a safetensors file, damaged; bytes that are none are damaged anywhere."""
    try:
        header, body = _parts(data)
    except (ValueError, struct.error):
        return damaged_bytes(draw, data)
    how = draw.randrange(10)
    if how <= 1:
        return damaged_bytes(draw, data)
    if how == 2:
        length = draw.choice([0, 1, 7, 2**31, 2**63, 2**64 - 1, len(data), len(data) - 8, 100_000_001])
        return struct.pack("<Q", length) + data[8:]
    if how == 3:
        return _joined(header, _other_numbers(draw, header, body))
    if how == 4:
        return _joined(damaged_value(draw, header, 2), body)
    if how == 5 and "__metadata__" in header:
        return _joined({**header, "__metadata__": _other_metadata(draw, header["__metadata__"])}, body)
    return _joined(_other_entry(draw, header), body)


def _parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise ValueError("no header")
    return header, data[8 + length :]


def _joined(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _names(header: dict[str, Any]) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def _other_numbers(draw: Random, header: dict[str, Any], body: bytes) -> bytes:
    """Overwrite some numbers of one tensor by ones that are not finite, or very large."""
    names = _names(header)
    if not names:
        return body + b"\0" * 4
    start, end = header[draw.choice(names)]["data_offsets"]
    changed = bytearray(body)
    for at in range(start, end - 3, 4):
        if draw.random() < 0.3:
            changed[at : at + 4] = struct.pack("<f", draw.choice(ODD_FLOATS))
    return bytes(changed)


def _other_entry(draw: Random, header: dict[str, Any]) -> dict[str, Any]:
    """Change one tensor's entry: its name, dtype, shape or offsets; or drop it, or add one."""
    header = json.loads(json.dumps(header))
    names = _names(header)
    if not names:
        return {**header, "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    name = draw.choice(names)
    entry = header[name]
    match draw.randrange(7):
        case 0:
            entry["dtype"] = draw.choice(DTYPES)
        case 1:
            entry["shape"] = draw.choice(SHAPES)
        case 2:
            entry["shape"] = entry["shape"][::-1]
        case 3:
            start, end = entry["data_offsets"]
            entry["data_offsets"] = draw.choice(
                [[end, start], [0, end], [start, end + 4], [-1, 2**63], [start, start]]
            )
        case 4:
            del header[name]
        case 5:
            header[draw.choice([f"{name}x", name.upper(), "", "../x", "__class__", "a" * 5000])] = header.pop(
                name
            )
        case 6:
            header[f"{name}.more"] = dict(entry)
    return header


def _other_metadata(draw: Random, metadata: Any) -> Any:
    """Change the metadata, or the JSON that one of its texts holds."""
    if isinstance(metadata, dict) and metadata and draw.random() < 0.8:
        key = draw.choice(list(metadata))
        try:
            inside = json.loads(metadata[key])
        except (TypeError, ValueError):
            return damaged_value(draw, metadata, 1)
        return {**metadata, key: json.dumps(damaged_value(draw, inside, 2))}
    return damaged_value(draw, metadata, 1)
