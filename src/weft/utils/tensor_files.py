"""Writing tensors to a file, with errors of the disk that name the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.utils.write_errors import explained

if TYPE_CHECKING:
    from torch import Tensor


def save_file(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, as `safetensors.torch.save_file` does, whose errors do not name the file.

    It is written by way of a file of a random name in the same folder, which a killed process leaves. So
    `path` should be in a temporary folder, which is then removed as a whole.

    Args:
        tensors: the tensors by name.
        path: the file.
        metadata: further entries of its header.
    """
    from safetensors.torch import save_file as save

    with explained(path):
        save(tensors, path, metadata)
