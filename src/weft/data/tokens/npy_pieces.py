"""Writing .npy files piece by piece, so that an array is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


def save_pieces(
    folder: Path, pieces: Iterable[Mapping[str, NDArray[np.integer]]], types: Mapping[str, Any]
) -> dict[str, int]:
    """Write arrays of one dimension as NAME.npy, the same bytes as `np.save` writes; return their lengths.

    Args:
        folder: the folder of the files.
        pieces: parts of the arrays, by name, in order.
        types: the type of each array.
    """
    sizes: dict[str, int] = {}
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for piece in pieces:
            for name, array in piece.items():
                if name not in files:
                    files[name] = stack.enter_context((folder / f"{name}.npy").open("wb"))
                    sizes[name] = 0
                    _write_header(files[name], types[name], 0)
                files[name].write(np.ascontiguousarray(array, types[name]).data)
                sizes[name] += len(array)
        for name, file in files.items():
            file.seek(0)
            _write_header(file, types[name], sizes[name])
    return sizes


def _write_header(file: BinaryIO, kind: Any, size: int) -> None:
    """Write a file's header; numpy leaves room for a longer size in it, so its length is always the same."""
    fields = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(file, fields)
