"""Packs the row statistics of a run into bytes, and back.

The bytes: MAGIC, the version (one byte), the CRC-32 of all that follows (four bytes), the length of the
deflated header (four bytes), the header (JSON), and the blocks of `codec`. All numbers are little-endian.
Equal arrays of a set are stored once, and arrays with few values share their codes.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.evaluation.rows.codec import Block, bits_of, codes_of, decode, encode, narrowed
from weft.evaluation.rows.run_rows import RunRows, SetRows
from weft.metrics.rows import Units
from weft.utils.safe_json import parse_json

MAGIC = b"weftrows"
VERSION = 1
_HEAD = struct.Struct("<8sBI")
_LENGTH = struct.Struct("<I")
_FEW = 16
"""Arrays with at most so many distinct values may share their codes."""
_LARGEST_HEADER = 64 * 2**20


def pack(run: RunRows) -> bytes:
    """Return the row statistics as bytes; equal statistics give equal bytes."""
    blocks: list[Block] = []
    data: list[bytes] = []
    sets = {}
    for name, rows in run.sets.items():
        distinct = _Distinct()
        metrics = {
            metric: {key: distinct.number(array) for key, array in arrays.items()}
            for metric, arrays in rows.arrays.items()
        }
        units = None if rows.units.of is None else distinct.number(rows.units.of)
        places: dict[int, list[int]] = {}
        for members in _together(distinct.arrays):
            block, encoded = encode([distinct.arrays[number] for number in members])
            for place, number in enumerate(members):
                places[number] = [len(blocks), place]
            blocks.append({**block, "bytes": len(encoded)})
            data.append(encoded)
        sets[name] = {
            "rows": rows.rows,
            "units": [rows.units.count, units if units is None else places[units]],
            "gold": rows.gold,
            "scores": rows.scores,
            "arrays": {
                metric: {key: places[number] for key, number in arrays.items()}
                for metric, arrays in metrics.items()
            },
        }
    header = json.dumps({"sets": sets, "blocks": blocks}, separators=(",", ":")).encode()
    small = zlib.compress(header, 9)
    body = _LENGTH.pack(len(small)) + small + b"".join(data)
    return _HEAD.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def unpack(data: bytes, source: str = "row statistics") -> RunRows:
    """Return the row statistics that `pack` has made bytes of.

    Args:
        data: the bytes.
        source: where they come from, such as a path: the beginning of error messages.

    Raises:
        WeftError: they are damaged, of a later version, or something else.
    """
    if len(data) < _HEAD.size + _LENGTH.size or data[: len(MAGIC)] != MAGIC:
        raise WeftError(f"{source}: these are no row statistics of weft; expected bytes made by `pack`")
    _, version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise WeftError(
            f"{source}: row statistics of version {version}; this weft reads version {VERSION}: "
            "install the weft that wrote them, or evaluate the run again"
        )
    body = data[_HEAD.size :]
    if zlib.crc32(body) != crc:
        raise WeftError(f"{source}: the row statistics are damaged (CRC-32 differs); evaluate the run again")
    try:
        return _read(body)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error) as wrong:
        raise WeftError(
            f"{source}: the row statistics are damaged ({wrong or type(wrong).__name__}); "
            "evaluate the run again"
        ) from None


def _read(body: bytes) -> RunRows:
    (length,) = _LENGTH.unpack_from(body)
    inflate = zlib.decompressobj()
    header = parse_json(inflate.decompress(body[_LENGTH.size : _LENGTH.size + length], _LARGEST_HEADER))
    position = _LENGTH.size + length
    blocks = []
    for block in header["blocks"]:
        blocks.append(decode(block, body[position : position + block["bytes"]]))
        position += block["bytes"]
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes too many")

    def array(place: list[int]) -> NDArray[Any]:
        stored = blocks[place[0]][place[1]]
        return stored.astype(np.float64) if stored.dtype.kind == "f" else stored

    sets = {}
    for name, rows in header["sets"].items():
        count, of = rows["units"]
        sets[name] = SetRows(
            rows["rows"],
            Units(count, None if of is None else array(of).astype(np.int64)),
            rows["gold"],
            {metric: float(value) for metric, value in rows["scores"].items()},
            {
                metric: {key: array(place) for key, place in arrays.items()}
                for metric, arrays in rows["arrays"].items()
            },
        )
    return RunRows(sets)


class _Distinct:
    """The distinct arrays of one set."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, array: NDArray[Any]) -> int:
        """The number of an array; equal arrays have one number."""
        small = narrowed(array)
        key = small.dtype.str, small.shape, small.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self.arrays)
            self.arrays.append(small)
        return self._numbers[key]


def _together(arrays: list[NDArray[Any]]) -> list[list[int]]:
    """Which arrays share their codes: those of one length that need fewer bits together than apart."""
    groups: list[list[int]] = []
    few: dict[int, list[int]] = {}
    for number, array in enumerate(arrays):
        coded = codes_of([array]) if array.ndim == 1 and array.size else None
        if coded is None or len(coded[0][0]) > _FEW:
            groups.append([number])
        else:
            few.setdefault(len(array), []).append(number)
    for numbers in few.values():
        shared: list[int] = []
        for number in numbers:
            if shared and _bits([arrays[n] for n in [*shared, number]]) > _bits(
                [arrays[n] for n in shared]
            ) + _bits([arrays[number]]):
                groups.append([number])
            else:
                shared.append(number)
        groups.append(shared)
    return groups


def _bits(arrays: list[NDArray[Any]]) -> int:
    """The bits per entry of the common codes; as many as never pay off if there are too many codes."""
    coded = codes_of(arrays)
    return 64 * len(arrays) if coded is None else bits_of(len(coded[0][0]))
