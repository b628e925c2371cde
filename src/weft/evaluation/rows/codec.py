"""Small, lossless bytes for arrays of booleans, integers and floats.

Two forms, of which the smaller is written, each also deflated if that helps:

- *codes*: a table of the distinct values, and for each entry its number in the table, in as few bits as
  possible, one bit plane after another. Arrays of one length may share their codes: the table then lists the
  distinct combinations. So the columns of accuracy and F1 of a task with two labels together need two bits
  per row, like its confusion matrix.
- *plain*: the values in the smallest type that holds them exactly, first bytes first.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CODES = 4096
"""Arrays with more distinct values are written plain."""
MOST_ENTRIES = 2**31
"""No array is larger; a larger number in a file is damage."""
_INTEGERS = ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8")
_TYPES = ("|b1", *_INTEGERS, "<u8", "<f4", "<f8")
_LEVEL = 9

Block = dict[str, Any]
"""The description of some encoded arrays; JSON-ready."""


def narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the smallest type that holds its values exactly, little-endian.

    Floats are stored as float32 or float64; -0.0 and nan are kept.
    """
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            small = array.astype("<f4")
        same = small.astype("<f8").tobytes() == array.astype("<f8").tobytes()
        return small if same else array.astype("<f8")
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "iu":
        raise TypeError(f"row statistics are booleans, integers or floats; found {array.dtype}")
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for name in _INTEGERS:
        limits = np.iinfo(name)
        if limits.min <= low and high <= limits.max:
            return array.astype(name)
    return array.astype("<u8")


def encode(arrays: Sequence[NDArray[Any]]) -> tuple[Block, bytes]:
    """Encode narrowed arrays of one shape in one block, by common codes if there are several.

    Args:
        arrays: one array, or several for which `codes_of` has found few combinations.
    """
    shape = list(arrays[0].shape)
    block: Block = {"types": [array.dtype.str for array in arrays], "shape": shape}
    coded = codes_of(arrays)
    forms = []
    if coded is not None:
        tables, codes = coded
        count = len(tables[0])
        planes = _planes(codes, bits_of(count))
        forms.append(({**block, "codes": count}, b"".join(table.tobytes() for table in tables) + planes))
    if len(arrays) == 1:
        forms.append((block, _first_bytes_first(arrays[0])))
    return min((_deflated(*form) for form in forms), key=lambda form: len(form[1]))


def decode(block: Block, data: bytes) -> list[NDArray[Any]]:
    """Return the arrays of a block.

    Raises:
        ValueError: the block does not describe the data.
    """
    shape = tuple(int(size) for size in block["shape"])
    size = int(np.prod(shape, dtype=object)) if shape else 1
    if size > MOST_ENTRIES or any(side < 0 for side in shape):
        raise ValueError(f"an array of shape {shape}")
    if not set(block["types"]) <= set(_TYPES):
        raise ValueError(f"arrays of type {block['types']}")
    types = [np.dtype(name) for name in block["types"]]
    codes = block.get("codes")
    width = sum(dtype.itemsize for dtype in types)
    packed = -(-size // 8)
    expected = size * width if codes is None else codes * width + packed * bits_of(codes)
    if block.get("deflated"):
        inflate = zlib.decompressobj()
        data = inflate.decompress(data, expected + 1)
    if len(data) != expected:
        raise ValueError(f"{len(data)} bytes where {expected} were expected")
    if codes is None:
        by_byte = np.frombuffer(data, np.uint8).reshape(width, size)
        return [np.ascontiguousarray(by_byte.T).reshape(-1).view(types[0]).reshape(shape)]
    numbers = np.zeros(size, np.int64)
    for bit in range(bits_of(codes)):
        first = codes * width + bit * packed
        plane = np.unpackbits(np.frombuffer(data, np.uint8, packed, first), count=size)
        numbers |= plane.astype(np.int64) << bit
    if size and numbers.max() >= codes:
        raise ValueError(f"code {numbers.max()} of {codes}")
    arrays, first = [], 0
    for dtype in types:
        table = np.frombuffer(data, dtype, codes, first)
        arrays.append(table[numbers].reshape(shape))
        first += codes * dtype.itemsize
    return arrays


def codes_of(arrays: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], NDArray[np.int64]] | None:
    """Number the distinct values of an array, or the distinct combinations of several.

    Returns:
        The table of each array, [codes], and the code of each entry; None if there are too many.
    """
    # values are compared by their bytes, so that -0.0 and nan are kept
    codes = np.zeros(arrays[0].size, np.int64)
    firsts = np.zeros(0, np.int64)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        as_bits = flat.view(f"u{flat.dtype.itemsize}") if flat.dtype.itemsize in (1, 2, 4, 8) else flat
        _, values = np.unique(as_bits, return_inverse=True)
        joint = codes * (int(values.max(initial=0)) + 1) + values.reshape(-1)
        _, firsts, codes = np.unique(joint, return_index=True, return_inverse=True)
        codes = codes.reshape(-1)
        if len(firsts) > MOST_CODES:
            return None
    return [np.ascontiguousarray(array).reshape(-1)[firsts] for array in arrays], codes


def bits_of(codes: int) -> int:
    """The bits of one code, if there are so many codes."""
    return max(0, int(codes) - 1).bit_length()


def _planes(codes: NDArray[np.int64], bits: int) -> bytes:
    return b"".join(np.packbits((codes >> bit & 1).astype(np.uint8)).tobytes() for bit in range(bits))


def _first_bytes_first(array: NDArray[Any]) -> bytes:
    """The first bytes of all values, then the second ones: equal bytes come together."""
    by_value = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize)
    return np.ascontiguousarray(by_value.T).tobytes()


def _deflated(block: Block, data: bytes) -> tuple[Block, bytes]:
    small = zlib.compress(data, _LEVEL)
    return ({**block, "deflated": 1}, small) if len(small) < len(data) else (block, data)
