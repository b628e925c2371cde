"""Which files of a folder hold an encoder's weights, and reading them.

The order is that of transformers: one safetensors file, several with an index, then the same as pickles.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.utils.safe_json import read_json
from weft.utils.weight_files import read_tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

FILES = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
"""The files that may hold the weights, or an index of the files that hold them; the first one is used."""
INDEX = ".index.json"


def find_weights(folder: Path, fetch: Callable[[str], Path | None] | None = None) -> list[Path]:
    """Return the files that hold the weights.

    Args:
        folder: the folder of the encoder.
        fetch: returns the path of a file by its name, None if there is none; by default from the folder.
    """
    fetch = fetch or (lambda name: folder / name if (folder / name).is_file() else None)
    for name in FILES:
        path = fetch(name)
        if path is None:
            continue
        if not name.endswith(INDEX):
            return [path]
        return [_part(path, part, fetch) for part in _parts(path, Path(name.removesuffix(INDEX)).suffix)]
    raise WeftError(f"{folder} has no weights; expected one of {', '.join(FILES)}")


def read_weights(files: list[Path]) -> dict[str, Tensor]:
    """Read the tensors of all files; pickles are read without running code."""
    weights: dict[str, Tensor] = {}
    for file in files:
        weights |= read_tensors(file)
    return weights


def _parts(index: Path, suffix: str) -> list[str]:
    """The files that an index names, each once: files of the same folder, of the index's own format."""
    parts = read_json(index, "expected the index of an encoder's files").get("weight_map")
    if not isinstance(parts, dict) or not parts:
        raise WeftError(f"{index}: weight_map: expected the file of each tensor")
    for name in parts.values():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(suffix):
            raise WeftError(
                f"{index}: weight_map names {str(name)[:60]!r}; expected files of the same folder that end "
                f"in {suffix}"
            )
    return sorted(set(parts.values()))


def _part(index: Path, name: str, fetch: Callable[[str], Path | None]) -> Path:
    path = fetch(name)
    if path is None:
        raise WeftError(f"{index} names {name}, which is missing")
    return path
