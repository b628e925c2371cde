"""Reading the bundles that are to be joined, and checking that they fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from weft.bundle.consistent import Replaced, consistently
from weft.bundle.manifest import MANIFEST, SHARED_FILE, find_bundle, read_bundle, read_manifest
from weft.errors import WeftError, words
from weft.methods import Method, build_method


@dataclass(frozen=True)
class Source:
    """One of the bundles to join.

    Attributes:
        folder: the bundle itself.
        manifest: the contents of its bundle.json.
        method: its method.
        facts: the settings of each task, by name, from its file.
    """

    folder: Path
    manifest: dict[str, Any]
    method: Method
    facts: dict[str, dict[str, Any]]

    @property
    def manifest_path(self) -> Path:
        """The path of its bundle.json, for messages."""
        return self.folder / MANIFEST

    @property
    def names(self) -> list[str]:
        """The names of its tasks."""
        return list(self.manifest["tasks"])

    def check_unchanged(self) -> None:
        """Raise `Replaced` if another process has replaced the bundle since it was read."""
        # its bundle.json holds the checksums of all files
        if consistently(self.folder, lambda: read_manifest(self.folder)) != self.manifest:
            raise Replaced(self.folder)

    def shared_keys(self) -> list[str]:
        """The names of the tensors that its tasks share, trained weights of the encoder among them."""
        path = self.folder / SHARED_FILE
        try:
            with safe_open(path, "pt") as file:
                return sorted(file.keys())
        except SafetensorError as wrong:
            raise WeftError(f"{path} is not a file of a bundle: {wrong}") from None


@dataclass(frozen=True)
class Together:
    """What the bundles have in common, and what had to be decided.

    Attributes:
        pool: the pooling that heads read.
        head_dropout: the largest of the bundles.
        max_length: the largest of the bundles.
        notes: decisions that may matter to the user.
    """

    pool: str
    head_dropout: float
    max_length: int
    notes: tuple[str, ...]


def read_sources(folders: Sequence[str | Path], out: Path) -> list[Source]:
    """Read the bundles, and check that each is sound and that `out` may be written.

    Args:
        folders: bundles, or run folders that hold them.
        out: the folder of the result.
    """
    if out.exists() and not (out / MANIFEST).is_file():
        raise WeftError(
            f"{out} exists and is not a bundle; pass a different folder with {words('--out', 'out')}"
        )
    sources = [_source(find_bundle(folder)) for folder in folders]
    for source in sources:
        if out.exists() and out.samefile(source.folder):
            raise WeftError(
                f"{out} is one of the bundles and would be replaced; pass a different {words('--out', 'out')}"
            )
    return sources


def _source(folder: Path) -> Source:
    manifest, tasks = read_bundle(folder)
    method = build_method(manifest["method"])
    return Source(folder, manifest, method, {name: task.settings() for name, task in tasks.items()})


def check_together(sources: Sequence[Source]) -> Together:
    """Check that the bundles can be one model: one encoder, each task once, equal pooling of the heads."""
    first = sources[0]
    of_task: dict[str, Source] = {}
    for source in sources:
        _check_encoder(first, source)
        for name in source.names:
            if name in of_task:
                raise WeftError(
                    f"the task {name!r} is in two bundles, {of_task[name].folder} and {source.folder}; "
                    "expected each task once: leave one of them out, or train it under a different name"
                )
            of_task[name] = source
        for key, value in source.manifest["heads"].items():
            if key != "dropout" and value != first.manifest["heads"].get(key):
                raise WeftError(
                    f"heads differ in {key}: {first.manifest['heads'].get(key)!r} in {first.manifest_path}, "
                    f"{value!r} in {source.manifest_path}; one model has one value: "
                    f"set heads.{key} in the run files, and train one of them again"
                )
    lengths = [source.manifest["max_length"] for source in sources]
    dropouts = [source.manifest["heads"]["dropout"] for source in sources]
    notes = [
        f"{name} is {', '.join(f'{v} in {s.manifest_path}' for v, s in zip(values, sources, strict=True))}; "
        f"the largest, {max(values)}, is used"
        for name, values in (("max_length", lengths), ("heads.dropout", dropouts))
        if len(set(values)) > 1
    ]
    return Together(first.manifest["heads"]["pool"], max(dropouts), max(lengths), tuple(notes))


def _check_encoder(first: Source, other: Source) -> None:
    expected, actual = first.manifest["encoder"], other.manifest["encoder"]
    if expected["sha256"] != actual["sha256"]:
        raise WeftError(
            f"{other.folder} needs a different encoder than {first.folder}.\n"
            f"  {first.manifest_path}: {expected['name']}, sha256 {expected['sha256']}\n"
            f"  {other.manifest_path}: {actual['name']}, sha256 {actual['sha256']}\n"
            "  Tasks of one model need one encoder: set the same in both run files, and train one of them "
            "again"
        )


def check_nothing_shared(source: Source) -> None:
    """Refuse a bundle in which tasks share trained weights: those of two bundles differ."""
    keys = source.shared_keys()
    if keys:
        tensors = "1 tensor" if len(keys) == 1 else f"{len(keys)} tensors"
        raise WeftError(
            f"{source.folder / SHARED_FILE} holds trained weights that tasks share "
            f"({tensors}, the first {keys[0]!r}); expected none: the shared weights of bundles that were "
            "trained separately "
            "cannot be joined.\n  Train with a method that shares nothing (share: task, train_encoder: "
            "none), "
            "or all tasks in one run: weft train RUN.yaml"
        )
