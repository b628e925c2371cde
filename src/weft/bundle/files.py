"""The files of a bundle on disk, and those of its encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from weft.bundle.manifest import MANIFEST, SHARED_FILE, task_file
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model


class StoredFile(TypedDict):
    """A file on disk.

    Attributes:
        what: `manifest`, `shared`, `task NAME` or `encoder`.
        path: its path; for an encoder without a file here, its name.
        bytes: its size; None if there is no file here.
        in_bundle: whether it is part of the bundle.
    """

    what: str
    path: str
    bytes: int | None
    in_bundle: bool


def files_of(model: Model, bundle: Path) -> list[StoredFile]:
    """List the files of a bundle and those of its encoder, which may be outside the bundle.

    Args:
        model: the bundle's model.
        bundle: the bundle itself.
    """
    inside = [("manifest", bundle / MANIFEST), ("shared", bundle / SHARED_FILE)]
    inside += [(f"task {task.name}", task_file(bundle, task.name)) for task in model.tasks]
    files = [_file(what, path, True) for what, path in inside]
    included = _weights(bundle / "encoder")
    if included:
        return files + [_file("encoder", path, True) for path in included]
    source = Path(model.encoder_source.source) if model.encoder_source.source is not None else None
    outside = _weights(source) if source is not None else []
    if outside:
        return files + [_file("encoder", path, False) for path in outside]
    # generated from its seed, or in the hub's cache
    return [*files, StoredFile(what="encoder", path=model.encoder_source.name, bytes=None, in_bundle=False)]


def _weights(folder: Path) -> list[Path]:
    """The files of an encoder's weights in a folder, safetensors before others."""
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        if paths := sorted(folder.glob(pattern)):
            return paths
    return []


def _file(what: str, path: Path, in_bundle: bool) -> StoredFile:
    try:
        size = path.stat().st_size
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror}") from None
    return StoredFile(what=what, path=str(path), bytes=size, in_bundle=in_bundle)
