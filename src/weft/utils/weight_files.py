"""Reads files of tensors from any origin: safetensors, or pickles of which only tensors are unpickled.

A pickle is a program. torch's restricted unpickler (`weights_only=True`) runs none of it but the few
functions that build tensors. Even so a small file may describe large tensors: by compression, which torch
never uses, or by many views of one storage. Both are refused.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    from torch import Tensor

VIEWS = 8
"""How many times larger than their file tensors may be together; tied weights are in two of them."""
SMALL = 2**20
"""Bytes that tensors may have together whatever the size of their file."""
_GLOBAL = re.compile(r"GLOBAL (\S+)")
"""Where torch names the function or class that it refuses."""


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name: a .safetensors file, or any other file that torch has saved."""
    contents = read_saved(path)
    if not isinstance(contents, dict):
        raise WeftError(f"{path}: expected tensors by name; found {type(contents).__name__}")
    check_tensors(path, contents)
    return contents


def read_saved(path: Path) -> Any:
    """Read a file of weights, and run no code that is in it.

    Returns:
        Tensors by name; or, from a file that is not .safetensors, whatever plain value it holds.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise WeftError(f"{path}: there is no such file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        mapped = _check_zip(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on how old the file is
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except WeftError:
        raise
    except SafetensorError as wrong:
        raise WeftError(f"{path} cannot be read as a file of weights: {_first_line(wrong)}") from None
    except Exception as wrong:  # a damaged pickle may raise anything
        if "weights only" in str(wrong).lower():
            name = _GLOBAL.search(str(wrong))
            raise WeftError(
                f"{path} cannot be read as a file of weights: it is a pickle with "
                f"{name[1] if name else 'more than tensors'} in it, and weft runs no code of a file\n"
                "  save the weights again as safetensors, in a program that you trust"
            ) from None
        raise WeftError(f"{path} cannot be read as a file of weights: {_first_line(wrong)}") from None


def check_tensors(path: Path, tensors: dict[Any, Any]) -> None:
    """Refuse values that are not plain tensors, and tensors that are larger than what the file stores."""
    import torch

    total = 0
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise WeftError(f"{path}: expected tensors by name; {name!r} is {type(value).__name__}")
        if value.layout is not torch.strided or value.is_meta or value.is_quantized:
            raise WeftError(f"{path}: {name!r} is not a plain tensor; expected dense values")
        size = value.numel() * value.element_size()
        if size > value.untyped_storage().nbytes():
            raise WeftError(f"{path}: {name!r} has shape {list(value.shape)}; the file stores fewer values")
        total += size
    if total > SMALL + VIEWS * path.stat().st_size:
        raise WeftError(f"{path}: its tensors have {total:,} bytes, {VIEWS} times as many as the file itself")


def _check_zip(path: Path) -> bool:
    """Refuse a compressed archive, which torch never writes; return whether the file is an archive at all."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise WeftError(f"{path}: the archive is compressed, and torch writes none that is; save it again")
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise WeftError(f"{path}: the files in the archive are larger than the archive itself; save it again")
    return True


def _first_line(wrong: Exception) -> str:
    """The first line of a message; with the exception's name if it is not a sentence, such as a number."""
    line = str(wrong).strip().split("\n")[0]
    return line if " " in line else f"{type(wrong).__name__} {line}".strip()
