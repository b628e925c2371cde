"""What a bundle's folder says about itself: bundle.json and the metadata of its files. No torch is imported.

A command that names a wrong folder, a wrong task or a broken bundle is answered from here, at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from weft.bundle.checksums import FILES, check_files, check_seal, task_path
from weft.bundle.checksums import MANIFEST as MANIFEST  # offered here too
from weft.bundle.checksums import SHARED_FILE as SHARED_FILE
from weft.bundle.consistent import consistently
from weft.bundle.no_bundle import no_bundle
from weft.bundle.strangers import check_plain_bundle, check_task_sizes, check_values
from weft.bundle.writing import wait_for_writer
from weft.encoder.load import check_reachable
from weft.errors import WeftError, did_you_mean
from weft.tasks.task import Task
from weft.utils.checksums import file_sha256
from weft.utils.hub_repository import repository

FORMAT = 1
METADATA = "weft"
NEEDS = ("encoder", "shared", "method")
"""What every task's file needs, each by its sha256."""

FIELDS: dict[str, tuple[Any, str]] = {
    "encoder": (dict, "its name and sha256"),
    "method": (dict | list, "the method's settings"),
    "tasks": (list, "the names of the tasks"),
    "heads": (dict, "what heads read, and their dropout"),
    "max_length": (int, "a number of tokens"),
    "seed": (int, "a whole number"),
}
"""The fields that bundle.json must have: their types, and what they hold."""


def find_bundle(folder: str | Path, tasks: Sequence[str] | None = None) -> Path:
    """Return the folder of a bundle, from that folder or from a run folder that holds it.

    If there is no such folder and the name is `user/name` or `user/name@revision`, the bundle is fetched from
    the Hugging Face hub, and its folder in the cache is returned. A folder that exists always wins.

    Args:
        folder: the bundle, a run folder, or the name of a repository on the hub.
        tasks: the tasks whose files are needed, if not all of them: only these are fetched from the hub.
    """
    name, folder = folder, Path(folder)
    for path in (folder, folder / "bundle"):
        if (path / MANIFEST).is_file() or (wait_for_writer(path) and (path / MANIFEST).is_file()):
            check_plain_bundle(folder, path)
            return path
    if (where := repository(name)) is not None and not os.path.lexists(folder):
        from weft.bundle.from_hub import fetch_bundle

        path = fetch_bundle(where, tasks)
        check_plain_bundle(path, path)
        return path
    raise no_bundle(folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check bundle.json, its own sha256 included; the other files are not read."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as wrong:
        raise WeftError(f"{path} is not JSON: {wrong}; restore it from a copy of the bundle") from None
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror or wrong}") from None
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if version != FORMAT:
        raise WeftError(f"{path} has format {version!r}; this version of weft reads format {FORMAT}")
    check_seal(path, manifest)
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
    check_values(path, manifest)
    if not (folder / SHARED_FILE).is_file():
        raise WeftError(f"{folder / SHARED_FILE} is missing; restore it from a copy of the bundle")
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
        check_task_sizes(path, facts["task"])
    except FileNotFoundError:
        raise WeftError(f"{path} is missing, though {MANIFEST} lists its task") from None
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as wrong:
        raise WeftError(f"{path} is not a task file of a bundle: {wrong}") from None
    for part in NEEDS:
        if not isinstance(facts["stands_on"].get(part), str):
            raise WeftError(
                f"{path} does not record the {part} that it needs; expected its sha256, found "
                f"{facts['stands_on'].get(part)!r}: without it the file cannot be matched with this bundle"
            )
    return facts


def read_tasks(
    folder: Path,
    manifest: dict[str, Any],
    encoder_sha256: str | None,
    names: Sequence[str] | None = None,
) -> dict[str, Task]:
    """Return the tasks by name, after checking that their files are undamaged and match the bundle.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        encoder_sha256: the hash of the encoder that was loaded.
        names: the tasks to read; by default all. The files of other tasks are not verified.
    """
    names = manifest["tasks"] if names is None else names
    files = [SHARED_FILE, *(task_path(name) for name in names)]
    check_files(folder, manifest, files)
    # what was verified just now is not hashed again
    shared = manifest[FILES][SHARED_FILE] if FILES in manifest else file_sha256(folder / SHARED_FILE)
    return matching_tasks(folder, manifest, names, encoder_sha256, shared)


def matching_tasks(
    folder: Path,
    manifest: Mapping[str, Any],
    names: Sequence[str],
    encoder_sha256: str | None,
    shared_sha256: str,
) -> dict[str, Task]:
    """Return tasks by name, after checking that their files match the bundle; nothing is hashed.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        names: the names of the tasks.
        encoder_sha256: the hash of the encoder.
        shared_sha256: the hash of the shared file.
    """
    actual = {
        "encoder": encoder_sha256,
        "shared": shared_sha256,
        "method": method_sha256(manifest["method"]),
    }
    tasks = {}
    for name in names:
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
        tasks[name] = task_of_settings(facts["task"])
    return tasks


def read_bundle(
    folder: Path, verify: bool = True, names: Sequence[str] | None = None
) -> tuple[dict[str, Any], dict[str, Task]]:
    """Return the contents of bundle.json and the tasks by name.

    Args:
        folder: the bundle; it may be replaced meanwhile.
        verify: whether to verify the shared file and the tasks' files; not needed before `load`, which does.
        names: the tasks to read; by default all. The files of other tasks are not read.
    """

    def read() -> tuple[dict[str, Any], dict[str, Task]]:
        manifest = read_manifest(folder)
        for name in names or ():
            check_has(folder, manifest, name)
        chosen = manifest["tasks"] if names is None else names
        if not verify:
            return manifest, {
                name: task_of_settings(read_facts(task_file(folder, name))["task"]) for name in chosen
            }
        return manifest, read_tasks(folder, manifest, manifest["encoder"]["sha256"], chosen)

    return consistently(folder, read)


@contextmanager
def damage_first(folder: Path, names: Sequence[str] | None = None) -> Iterator[None]:
    """Inside, a mistake is reported as damage if the bundle, whose files were not verified, is damaged.

    Args:
        folder: the bundle.
        names: the tasks whose files are verified; by default all.
    """
    try:
        yield
    except WeftError:
        read_bundle(folder, names=names)
        raise


def task_of_settings(settings: dict[str, Any]) -> Task:
    """Return the task of its settings in a file; see `Task.settings`."""
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
    return folder / task_path(name)


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
