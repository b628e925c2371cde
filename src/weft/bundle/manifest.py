"""What a bundle's folder says about itself: bundle.json and the metadata of its files. No torch is imported.

A command that names a wrong folder, a wrong task or a broken bundle is answered from here, at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from weft.encoder.load import check_reachable, file_sha256
from weft.errors import WeftError, did_you_mean
from weft.tasks.task import Task

FORMAT = 1
MANIFEST = "bundle.json"
SHARED_FILE = "shared.safetensors"
METADATA = "weft"

FIELDS: dict[str, tuple[Any, str]] = {
    "encoder": (dict, "its name and sha256"),
    "method": (dict | list, "the method's settings"),
    "tasks": (list, "the names of the tasks"),
    "heads": (dict, "what heads read, and their dropout"),
    "max_length": (int, "a number of tokens"),
    "seed": (int, "a whole number"),
}
"""The fields that bundle.json must have: their types, and what they hold."""


def find_bundle(folder: str | Path) -> Path:
    """Return the folder of a bundle, from that folder or from a run folder that holds it."""
    folder = Path(folder)
    for path in (folder, folder / "bundle"):
        if (path / MANIFEST).is_file():
            return path
    raise WeftError(f"{folder} holds no bundle ({MANIFEST} is missing); a run writes one when it ends")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check bundle.json."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise WeftError(f"{path} is not JSON: {wrong}") from None
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if version != FORMAT:
        raise WeftError(f"{path} has format {version!r}; this version of weft reads format {FORMAT}")
    for name, (kinds, expected) in FIELDS.items():
        if name not in manifest:
            raise WeftError(f"{path} lacks {name!r}")
        if not isinstance(manifest[name], kinds):
            raise WeftError(f"{path}: {name} is {manifest[name]!r}; expected {expected}")
    for section, keys in (("encoder", ("name", "sha256", "included")), ("heads", ("pool", "dropout"))):
        for name in keys:
            if name not in manifest[section]:
                raise WeftError(f"{path}: {section} lacks {name!r}")
    names = manifest["tasks"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names) or not names:
        raise WeftError(f"{path}: tasks is {names!r}; expected the names of the tasks, each once")
    if not (folder / SHARED_FILE).is_file():
        raise WeftError(f"{folder / SHARED_FILE} is missing")
    return manifest


def check_encoder(manifest: Mapping[str, Any], encoder: object = None) -> None:
    """Refuse an encoder that cannot be loaded, before torch is imported.

    Args:
        manifest: the contents of bundle.json.
        encoder: the encoder, or its folder or hub id if it has moved.
    """
    if encoder is None and not manifest["encoder"]["included"]:
        encoder = manifest["encoder"]["name"]
    if isinstance(encoder, str | Path):
        check_reachable(encoder)


def read_facts(path: Path) -> dict[str, Any]:
    """Read the metadata of a task's file: the task's settings, and the hashes of what it needs."""
    try:
        with safe_open(path, "np") as file:  # "pt" would import torch
            facts: dict[str, Any] = json.loads((file.metadata() or {})[METADATA])
        if not (isinstance(facts["task"], dict) and isinstance(facts["stands_on"], dict)):
            raise ValueError("its metadata has a different form")
        return facts
    except FileNotFoundError:
        raise WeftError(f"{path} is missing, though {MANIFEST} lists its task") from None
    except (SafetensorError, KeyError, ValueError) as wrong:
        raise WeftError(f"{path} is not a task file of a bundle: {wrong}") from None


def read_tasks(folder: Path, manifest: dict[str, Any], encoder_sha256: str | None) -> dict[str, Task]:
    """Return the tasks by name, after checking that their files match the bundle.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        encoder_sha256: the hash of the encoder that was loaded.
    """
    actual = {
        "encoder": encoder_sha256,
        "shared": file_sha256(folder / SHARED_FILE),
        "method": method_sha256(manifest["method"]),
    }
    tasks = {}
    for name in manifest["tasks"]:
        path = task_file(folder, name)
        facts = read_facts(path)
        if facts["task"].get("name") != name:
            raise WeftError(f"{path} holds the task {facts['task'].get('name')!r}")
        for part, sha256 in facts["stands_on"].items():
            if part not in actual:
                raise WeftError(
                    f"{path} needs {part!r}, which this version of weft does not know; use a later version"
                )
            if actual[part] != sha256:
                raise WeftError(
                    f"{path} needs a different {part} than this bundle has.\n"
                    f"  sha256 found    {actual[part]}\n  sha256 expected {sha256}"
                )
        tasks[name] = _task(facts["task"])
    return tasks


def bundle_tasks(folder: str | Path) -> list[Task]:
    """Return the tasks of a bundle in their order, without its weights."""
    folder = find_bundle(folder)
    names = read_manifest(folder)["tasks"]
    return [_task(read_facts(task_file(folder, name))["task"]) for name in names]


def _task(settings: dict[str, Any]) -> Task:
    values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    try:
        return Task(**values)
    except TypeError as wrong:  # a setting of a later version of weft
        raise WeftError(
            f"task {settings.get('name')!r}: this version of weft does not know a setting in its file: "
            f"{wrong}"
        ) from None


def check_has(folder: Path, manifest: Mapping[str, Any], name: str) -> None:
    """Refuse a task that the bundle does not have."""
    if name not in manifest["tasks"]:
        raise WeftError(f"{folder} has no task {name!r}; {did_you_mean(name, manifest['tasks'])}")


def task_file(folder: Path, name: str) -> Path:
    """The path of a task's file in a bundle."""
    return folder / "tasks" / f"{name}.safetensors"


def method_sha256(settings: Any) -> str:
    """The sha256 of a method's settings as they are written in bundle.json.

    As written, not as parsed: a setting that a later version of weft adds must not change the hash of a
    bundle.
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def bundle_sha256(folder: str | Path) -> str | None:
    """The sha256 of all files of a bundle that define its model; None if the folder holds no bundle.

    Args:
        folder: the bundle, or the folder of a run.
    """
    try:
        bundle = find_bundle(folder)
    except WeftError:
        return None
    digest = hashlib.sha256()
    for file in sorted(
        [bundle / MANIFEST, *bundle.glob("*.safetensors"), *bundle.glob("tasks/*.safetensors")]
    ):
        digest.update(f"{file.relative_to(bundle).as_posix()} {file_sha256(file)}\n".encode())
    return digest.hexdigest()
