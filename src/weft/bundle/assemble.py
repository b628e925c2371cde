"""`weft assemble`: join bundles that were trained separately into one, without changing their tasks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from weft.adapters.bias import BiasAdapter
from weft.adapters.lora import LoraAdapter
from weft.bundle.checksums import write_manifest
from weft.bundle.load import check_tensor
from weft.bundle.manifest import METADATA, SHARED_FILE, method_sha256, task_file
from weft.bundle.sources import Source, Together, check_nothing_shared, check_together, read_sources
from weft.bundle.updates import TaskUpdates, check_float32, model_of, updates_of_all
from weft.bundle.writing import writing_bundle
from weft.encoder.anatomy import sites_of
from weft.encoder.sites import LINEAR, Sites, parse_layers
from weft.errors import WeftError, words
from weft.methods import Method
from weft.methods.lora import Lora
from weft.methods.lora_bitfit import LoraBitfit
from weft.methods.ranked import BIASES
from weft.utils.checksums import file_sha256
from weft.utils.files import new_folder
from weft.utils.tensor_files import save_file
from weft.utils.version import __version__

UNIFIED = (
    *("rank", "alpha", "rank_pattern", "l0", "dropout", "sites", "layers", "biases"),
    *("scaling", "init", "lr_ratio"),
)
"""Settings of LoRA that may differ between bundles: they say where an update acts and how it is stored."""


@dataclass(frozen=True)
class Assembled:
    """The result of `assemble`.

    Attributes:
        folder: the new bundle.
        tasks: its tasks, in the order of the bundles.
        method: its method.
        notes: decisions that may matter to the user.
    """

    folder: Path
    tasks: tuple[str, ...]
    method: Method
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The output of `weft assemble --json`."""
        return {
            "bundle": str(self.folder),
            "tasks": self.tasks,
            "method": self.method.settings(),
            "notes": self.notes,
        }


def assemble(folders: Sequence[str | Path], out: str | Path, *, encoder: Any = None) -> Assembled:
    """Join bundles whose tasks share nothing but the encoder, and constants of it, into one bundle.

    Each task gives exactly the logits of its own bundle: its file holds the same tensors. LoRA with different
    ranks, scales and sites, with or without biases, is unified: each site that any task uses has the largest
    rank, the scale is multiplied into B, and what a task lacks has its initial value, for which B and biases
    are zero. Logits are then equal up to rounding.

    Args:
        folders: two or more bundles, or run folders that hold them.
        out: the folder of the new bundle.
        encoder: folder or hub id of the encoder, if it has moved; read only if methods are unified.
    """
    with writing_bundle(out, words("weft assemble", "weft.assemble")):
        return _assemble(folders, Path(out), encoder)


def _assemble(folders: Sequence[str | Path], out: Path, encoder: Any) -> Assembled:
    if len(folders) < 2:
        named = ", ".join(str(folder) for folder in folders) or "none"
        raise WeftError(
            f"assemble joins two or more bundles; found {len(folders)} ({named}): "
            + words(f"weft assemble BUNDLE BUNDLE --out {out}", "weft.assemble([BUNDLE, BUNDLE], OUT)")
        )
    sources = read_sources(folders, out)
    together = check_together(sources)
    same_method = all(source.method == sources[0].method for source in sources)
    equal = same_method and _equal_constants(sources)
    for source in sources:
        # LoRA that is unified holds the constants in its factors
        if not equal and not (_is_lora(source.method) and source.method.shares_constants):
            check_nothing_shared(source)
    if equal or (same_method and not any(source.shared_keys() for source in sources)):
        _join(sources, together, out)
        method, notes = sources[0].method, together.notes
    else:
        _check_unifiable(sources)
        method, unify_notes = _unify(sources, together, out, encoder)
        notes = (*together.notes, *unify_notes)
    return Assembled(out, tuple(name for source in sources for name in source.names), method, notes)


def _equal_constants(sources: Sequence[Source]) -> bool:
    """Whether all that tasks share are constant factors of the encoder, equal in all bundles."""
    if not all(part.shares_constants for part in sources[0].method.parts):
        return False
    return len({file_sha256(source.folder / SHARED_FILE) for source in sources}) == 1


def _join(sources: Sequence[Source], together: Together, out: Path) -> None:
    """Copy the task files into one folder: a task's file does not depend on the other tasks."""
    first = sources[0]
    with_encoder = next((source for source in sources if source.manifest["encoder"]["included"]), None)
    with new_folder(out) as work:
        (work / "tasks").mkdir()
        shutil.copyfile(first.folder / SHARED_FILE, work / SHARED_FILE)
        stands_on = {
            "encoder": first.manifest["encoder"]["sha256"],
            "shared": file_sha256(work / SHARED_FILE),
            "method": method_sha256(first.manifest["method"]),
        }
        for source in sources:
            for name in source.names:
                facts = {"task": source.facts[name], "stands_on": stands_on}
                tensors = load_file(task_file(source.folder, name))
                for key, value in tensors.items():
                    check_float32(f"{task_file(source.folder, name)}: {key!r}", value)
                    check_tensor(task_file(source.folder, name), key, value)
                save_file(tensors, task_file(work, name), {METADATA: json.dumps(facts, sort_keys=True)})
        if with_encoder is not None:
            shutil.copytree(with_encoder.folder / "encoder", work / "encoder")
        manifest = {
            **first.manifest,
            "weft": __version__,
            "encoder": (with_encoder or first).manifest["encoder"],
            "tasks": [name for source in sources for name in source.names],
            "heads": {**first.manifest["heads"], "dropout": together.head_dropout},
            "max_length": together.max_length,
        }
        for source in sources:
            source.check_unchanged()
        write_manifest(work, manifest)


def _differences(first: Method, second: Method) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ between two methods with the same parts, or two LoRA methods."""
    different = {}
    for number, parts in enumerate(zip(first.parts, second.parts, strict=True)):
        left, right = (part.model_dump(mode="json") for part in parts)
        of = f"part {number + 1} ({parts[0].name}), " if len(first.parts) > 1 else ""
        for key in {**left, **right}:
            if left.get(key) != right.get(key):
                different[of + key] = left.get(key), right.get(key)
    return different


def _check_unifiable(sources: Sequence[Source]) -> None:
    """Check that the methods differ only in `UNIFIED` settings of LoRA."""
    first = sources[0]
    for other in sources[1:]:
        lora = _is_lora(first.method) and _is_lora(other.method)
        if not lora and _method_name(first) != _method_name(other):
            raise WeftError(
                f"the bundles have different methods: {_method_name(first)} in {first.manifest_path}, "
                f"{_method_name(other)} in "
                f"{other.manifest_path}; expected one method: train both with the same method"
            )
        allowed = UNIFIED if lora else ()
        differ = _differences(first.method, other.method)
        if wrong := [key for key in differ if key not in allowed]:
            lines = [f"  {key}: {differ[key][0]!r} and {differ[key][1]!r}" for key in wrong]
            may = f"; only {', '.join(allowed)} may differ" if allowed else ""
            raise WeftError(
                f"method {_method_name(first)!r} has different settings in {first.manifest_path} and "
                f"{other.manifest_path}:\n" + "\n".join(lines) + f"\n  Train both with the same settings{may}"
            )


def _is_lora(method: Method) -> bool:
    """Whether a method can be unified with others of its kind."""
    return type(method) in (Lora, LoraBitfit)


def _method_name(source: Source) -> str:
    return "+".join(part.name for part in source.method.parts)


def _unify(
    sources: Sequence[Source], together: Together, out: Path, encoder: Any
) -> tuple[Method, tuple[str, ...]]:
    """Write one LoRA for all tasks: the largest rank at each site, and a scale of 1."""
    updates, bare = updates_of_all(sources, encoder)
    for source in sources:
        source.check_unchanged()
    method = _unified(sources, updates, sites_of(bare.model))
    model = model_of(bare, updates, method, together, sources[0].manifest["seed"])
    with torch.no_grad():
        for site, adapter in model.placements:
            for number, task_updates in enumerate(updates):
                if isinstance(adapter, LoraAdapter):
                    up, down = task_updates.factors(site)
                    adapter.slot("B", number)[:, : up.size(1)] = up
                    adapter.slot("A", number)[: down.size(0)] = down
                elif isinstance(adapter, BiasAdapter):
                    adapter.slot("v", number).copy_(task_updates.bias(site))
    model.save(out, with_encoder=any(source.manifest["encoder"]["included"] for source in sources))
    return method, _notes(sources)


def _notes(sources: Sequence[Source]) -> tuple[str, ...]:
    """Notes on the settings that differ between the bundles and may matter to the user."""
    settings = [source.method.model_dump(mode="json") for source in sources]
    notes = []
    dropouts = {method["dropout"] for method in settings}
    if len(dropouts) > 1:
        notes.append(f"dropout of the updates is {sorted(dropouts)}; the largest, {max(dropouts)}, is used")
    for key in ("sites", "layers", "biases"):
        values = [method.get(key, "none") for method in settings]
        if any(value != values[0] for value in values):
            by_bundle = [f"{v} in {s.manifest_path}" for v, s in zip(values, sources, strict=True)]
            notes.append(
                f"{key} are {', '.join(by_bundle)}; the union is used, with zeros where a task has none"
            )
    return tuple(notes)


def _unified(sources: Sequence[Source], updates: Sequence[TaskUpdates], sites: Sites) -> Method:
    """The method whose sites and ranks fit all updates."""
    methods = [source.method for source in sources if isinstance(source.method, Lora)]
    kinds = tuple(kind for kind in LINEAR if any(kind in method.sites for method in methods))
    layers = sorted({n for method in methods for n in parse_layers(method.layers, sites.num_layers)})
    # rank 0 leaves a site out; it stays where no task has an update
    ranks = {site.key: 0 for site in sites.available(kinds, layers)}
    for task_updates in updates:
        for site, (up, _) in task_updates.weights.items():
            ranks[site.key] = max(ranks[site.key], up.size(1))
    rank = max((*ranks.values(), 1))
    settings: dict[str, Any] = {
        **methods[0].model_dump(),
        "rank": rank,
        "rank_pattern": {key: r for key, r in ranks.items() if r != rank},
        "alpha": None,
        "scaling": "lora",
        "init": "lora",
        "lr_ratio": max(method.lr_ratio for method in methods),
        "l0": None,
        "dropout": max(method.dropout for method in methods),
        "sites": kinds,
    }
    if any(method.layers != methods[0].layers for method in methods):
        settings["layers"] = "all" if len(layers) == sites.num_layers else layers
    with_biases = [method.biases for method in methods if isinstance(method, LoraBitfit)]
    if not with_biases:
        return Lora(**settings)
    # every named set of biases includes the smaller ones
    widest = max(with_biases, key=lambda name: len(BIASES[name]))
    return LoraBitfit(**{**settings, "biases": widest})
