"""Bundles that are to become one: read, compared, and refused where they do not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from weft.bundle.load import find_bundle, read_manifest, read_tasks
from weft.bundle.save import MANIFEST, SHARED_FILE
from weft.errors import WeftError
from weft.methods import Method, build_method


@dataclass(frozen=True)
class Source:
    """One of the bundles.

    Attributes:
        folder: the bundle itself.
        said: what its bundle.json says.
        method: its method.
        facts: what each task's file says of the task, by name.
    """

    folder: Path
    said: dict[str, Any]
    method: Method
    facts: dict[str, dict[str, Any]]

    @property
    def manifest(self) -> Path:
        """Its bundle.json, for messages."""
        return self.folder / MANIFEST

    @property
    def names(self) -> list[str]:
        """Its tasks."""
        return list(self.said["tasks"])

    def shared_keys(self) -> list[str]:
        """The names of the tensors that its tasks share, trained weights of the encoder among them."""
        path = self.folder / SHARED_FILE
        try:
            with safe_open(path, "pt") as file:
                return sorted(file.keys())
        except SafetensorError as wrong:
            raise WeftError(f"{path} is no file of a bundle: {wrong}") from None


@dataclass(frozen=True)
class Together:
    """What the bundles have in common, and what had to be decided.

    Attributes:
        pool: what heads read.
        head_dropout: the largest.
        max_length: the largest.
        notes: what was decided and could matter.
    """

    pool: str
    head_dropout: float
    max_length: int
    notes: tuple[str, ...]


def read_sources(folders: Sequence[str | Path], out: Path) -> list[Source]:
    """Read what the bundles say, and see to it that each is sound and that `out` may be written.

    Args:
        folders: bundles, or runs' folders that hold them.
        out: where the result will be.
    """
    if out.exists() and not (out / MANIFEST).is_file():
        raise WeftError(f"{out} exists and is no bundle; give another folder with --out")
    sources = [_source(find_bundle(folder)) for folder in folders]
    for source in sources:
        if out.exists() and out.samefile(source.folder):
            raise WeftError(f"{out} is one of the bundles and would be replaced; give another --out")
    return sources


def _source(folder: Path) -> Source:
    said = read_manifest(folder)
    method = build_method(said["method"])
    tasks = read_tasks(folder, said, said["encoder"]["sha256"])
    return Source(folder, said, method, {name: task.settings() for name, task in tasks.items()})


def check_together(sources: Sequence[Source]) -> Together:
    """Whether the bundles can be one model at all: one encoder, each task once, heads that read the same."""
    first = sources[0]
    of_task: dict[str, Source] = {}
    for source in sources:
        _check_encoder(first, source)
        for name in source.names:
            if name in of_task:
                raise WeftError(
                    f"the task {name!r} is in two bundles, {of_task[name].folder} and {source.folder}; "
                    "expected each task once: leave one of them out, or train it under another name"
                )
            of_task[name] = source
        for key, value in source.said["heads"].items():
            if key != "dropout" and value != first.said["heads"].get(key):
                raise WeftError(
                    f"heads differ in {key}: {first.said['heads'].get(key)!r} in {first.manifest}, "
                    f"{value!r} in {source.manifest}; one model has one: "
                    f"set heads.{key} in the run files, and train one of them again"
                )
    lengths = [source.said["max_length"] for source in sources]
    dropouts = [source.said["heads"]["dropout"] for source in sources]
    notes = [
        f"{what} is {', '.join(f'{v} in {s.manifest}' for v, s in zip(values, sources, strict=True))}; "
        f"the largest, {max(values)}, is taken"
        for what, values in (("max_length", lengths), ("heads.dropout", dropouts))
        if len(set(values)) > 1
    ]
    return Together(first.said["heads"]["pool"], max(dropouts), max(lengths), tuple(notes))


def _check_encoder(first: Source, other: Source) -> None:
    one, two = first.said["encoder"], other.said["encoder"]
    if one["sha256"] != two["sha256"]:
        raise WeftError(
            f"{other.folder} stands on another encoder than {first.folder}.\n"
            f"  {first.manifest}: {one['name']}, sha256 {one['sha256']}\n"
            f"  {other.manifest}: {two['name']}, sha256 {two['sha256']}\n"
            "  Tasks of one model need one encoder: give both run files the same, and train one of them again"
        )


def check_nothing_shared(source: Source) -> None:
    """Refuse a bundle in which tasks share trained weights: those of two bundles differ."""
    keys = source.shared_keys()
    if keys:
        tensors = "1 tensor" if len(keys) == 1 else f"{len(keys)} tensors"
        raise WeftError(
            f"{source.folder / SHARED_FILE} holds trained weights that are no one task's own "
            f"({tensors}, the first {keys[0]!r}); expected none: what bundles trained apart share cannot be "
            "put together.\n  Train with a method that shares nothing (share: task, train_encoder: none), "
            "or all tasks in one run: weft train RUN.yaml"
        )
