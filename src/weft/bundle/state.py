"""What a bundle holds at one moment: to notice that others have changed it since it was read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.bundle.manifest import SHARED_FILE, find_bundle, method_sha256, read_manifest, task_file
from weft.bundle.steady import steady
from weft.encoder.load import file_sha256


@dataclass(frozen=True)
class BundleState:
    """What a bundle holds at one moment.

    Attributes:
        base: the hashes of what every task's file needs: encoder, method, shared file; and what heads read.
        tasks: the sha256 of each task's file, by name.
        with_encoder: whether the encoder is included.
    """

    base: tuple[object, ...]
    tasks: dict[str, str]
    with_encoder: bool


@steady
def state_of(bundle: str | Path) -> BundleState:
    """Read what a bundle, or that of a run's folder, holds now."""
    folder = find_bundle(bundle)
    manifest = read_manifest(folder)
    base = (
        manifest["encoder"]["sha256"],
        method_sha256(manifest["method"]),
        file_sha256(folder / SHARED_FILE),
        manifest["heads"]["pool"],
        manifest["max_length"],
    )
    tasks = {name: file_sha256(task_file(folder, name)) for name in manifest["tasks"]}
    return BundleState(base, tasks, bool(manifest["encoder"]["included"]))
