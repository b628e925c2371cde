"""The checksums of a bundle: bundle.json holds the sha256 of every file, and its own.

"files": {"shared.safetensors": …, "tasks/NAME.safetensors": …, "encoder/config.json": …}
"sha256": of bundle.json itself without this key, as values and not as text

Bundles of earlier versions have neither key, and their files are not verified. A bundle always has both or
neither: a single damaged key cannot turn it into one of an earlier version. No torch is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weft.errors import WeftError, words
from weft.utils.checksums import SEAL, file_problem, file_sha256, is_sealed, sealed
from weft.utils.files import as_json

FILES = "files"
MANIFEST = "bundle.json"
SHARED_FILE = "shared.safetensors"
ENCODER = "encoder"
ENCODER_WEIGHTS = f"{ENCODER}/model.safetensors"


def task_path(name: str) -> str:
    """The path of a task's file in a bundle."""
    return f"tasks/{name}.safetensors"


def write_manifest(folder: Path, contents: Mapping[str, Any], known: Mapping[str, str] | None = None) -> None:
    """Write bundle.json with the checksums of the files that are in the folder now.

    The folder is a new one, which is flushed to the disk and moved into place as a whole (`new_folder`).
    Files that a user has put into a bundle are not listed: they may change.

    Args:
        folder: the bundle, complete but for bundle.json.
        contents: bundle.json; checksums in it are replaced.
        known: the sha256 of files that were computed just now, by their paths in the bundle.
    """
    known = known or {}
    names = [SHARED_FILE, *(task_path(name) for name in contents["tasks"]), *_encoder_files(folder)]
    listed = {name: known[name] if name in known else file_sha256(folder / name) for name in names}
    plain = {key: value for key, value in contents.items() if key not in (FILES, SEAL)}
    text = as_json(sealed({**plain, FILES: listed}))
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def check_seal(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a bundle.json that was changed after it was written.

    Args:
        path: bundle.json, for messages.
        manifest: its contents.
    """
    if FILES not in manifest and SEAL not in manifest:
        return  # of an earlier version
    if is_sealed(manifest) and isinstance(manifest.get(FILES), dict):
        return
    raise WeftError(
        f"{path} is damaged or was edited: its contents do not have the sha256 that it records\n"
        "  restore it from a copy of the bundle\n"
        f"  to keep an edit of your own, delete its keys {FILES!r} and {SEAL!r}: the files of the bundle are "
        "then no longer verified"
    )


def check_files(
    folder: Path, manifest: Mapping[str, Any], names: Iterable[str], known: Mapping[str, str] | None = None
) -> None:
    """Refuse files that are not those that the bundle was written with.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json; without checksums nothing is checked.
        names: the paths of the files in the bundle.
        known: the sha256 of files that were computed just now, by their paths.
    """
    recorded = manifest.get(FILES)
    if recorded is None:
        return
    for name in names:
        problem = file_problem(folder / name, recorded.get(name), (known or {}).get(name))
        if problem is not None:
            raise WeftError(f"{problem}\n  {folder / MANIFEST} records it; {_next(folder, manifest, name)}")


def check_encoder_files(
    folder: Path, manifest: Mapping[str, Any], known: Mapping[str, str] | None = None
) -> bool:
    """Refuse a damaged encoder of a bundle; returns whether the sha256 of its weights is recorded.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        known: the sha256 of files that were computed just now, by their paths in the bundle.
    """
    names = [name for name in manifest.get(FILES, {}) if name.startswith(f"{ENCODER}/")]
    check_files(folder, manifest, names, known)
    return ENCODER_WEIGHTS in names


def _encoder_files(folder: Path) -> list[str]:
    """The paths of all files of an included encoder; hidden ones are not weft's."""
    files = (path for path in (folder / ENCODER).rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in files)
    return sorted(name for name in names if not any(part.startswith(".") for part in name.split("/")))


def _next(folder: Path, manifest: Mapping[str, Any], name: str) -> str:
    """What to do about a damaged file."""
    restore = "restore it from a copy of the bundle, or make the bundle again"
    task = next((task for task in manifest["tasks"] if task_path(task) == name), None)
    if task is None or len(manifest["tasks"]) == 1:
        return restore
    remove = words(
        f"weft task remove {folder} {task} --out NEW", f"weft.remove_task({str(folder)!r}, {task!r}, 'NEW')"
    )
    return f"{restore}\n  a bundle of the other tasks alone: {remove}"
