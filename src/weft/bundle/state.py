"""What a bundle holds at one moment: to notice that others have changed it since it was read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.bundle.checksums import FILES, SHARED_FILE, task_path
from weft.bundle.consistent import consistently
from weft.bundle.manifest import find_bundle, method_sha256, read_manifest
from weft.utils.checksums import file_sha256


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


def state_of(bundle: str | Path) -> BundleState:
    """Read what a bundle, or that of a run's folder, holds now; files are hashed if bundle.json does not."""
    folder = find_bundle(bundle)

    def read() -> BundleState:
        manifest = read_manifest(folder)
        recorded = manifest.get(FILES, {})
        paths = {name: task_path(name) for name in manifest["tasks"]}
        hashes = {
            path: recorded.get(path) or file_sha256(folder / path) for path in (SHARED_FILE, *paths.values())
        }
        base = (
            manifest["encoder"]["sha256"],
            method_sha256(manifest["method"]),
            hashes[SHARED_FILE],
            manifest["heads"]["pool"],
            manifest["max_length"],
        )
        tasks = {name: hashes[path] for name, path in paths.items()}
        return BundleState(base, tasks, bool(manifest["encoder"]["included"]))

    return consistently(folder, read)
