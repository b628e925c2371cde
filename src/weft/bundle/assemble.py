"""Bundles trained apart, put together into one: all tasks in one model, each as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from weft.adapters.bias import BiasAdapter
from weft.adapters.lora import LoraAdapter
from weft.bundle.save import MANIFEST, METADATA, SHARED_FILE, method_sha256, task_file
from weft.bundle.sources import Source, Together, check_nothing_shared, check_together, read_sources
from weft.bundle.updates import TaskUpdates, check_finite, model_of, updates_of_all
from weft.encoder.anatomy import sites_of
from weft.encoder.load import file_sha256
from weft.encoder.sites import LINEAR, Sites, parse_layers
from weft.errors import WeftError
from weft.methods import Method
from weft.methods.lora import Lora
from weft.methods.lora_bitfit import LoraBitfit
from weft.methods.ranked import BIASES
from weft.utils.files import new_folder, write_json
from weft.utils.version import __version__

UNIFIED = ("rank", "alpha", "rank_pattern", "l0", "dropout", "sites", "layers", "biases")
"""Settings of LoRA that may differ between bundles: they are about where and how an update is written."""


@dataclass(frozen=True)
class Assembled:
    """What was put together.

    Attributes:
        folder: the new bundle.
        tasks: its tasks, in the order of the bundles.
        method: its method.
        notes: what was decided and could matter.
    """

    folder: Path
    tasks: tuple[str, ...]
    method: Method
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """What `weft assemble --json` prints."""
        return {
            "bundle": str(self.folder),
            "tasks": self.tasks,
            "method": self.method.settings(),
            "notes": self.notes,
        }


def assemble(folders: Sequence[str | Path], out: str | Path, *, encoder: Any = None) -> Assembled:
    """Put bundles that share nothing but the encoder into one.

    Each task then gives exactly the logits of its own bundle: its file holds the same tensors. LoRA of other
    ranks, scales and sites, with biases or without, is unified: at each site of any task the largest rank,
    the scale multiplied into B, and what a task does not have at its start, where B and biases are zero;
    logits are then equal up to rounding.

    Args:
        folders: the bundles, or runs' folders that hold them; two or more.
        out: the new bundle's folder.
        encoder: where the encoder is, if not where it was; read only where ranks are unified.
    """
    out = Path(out)
    if len(folders) < 2:
        named = ", ".join(str(folder) for folder in folders) or "none"
        raise WeftError(
            f"assemble puts two bundles or more together; found {len(folders)} ({named}): "
            f"weft assemble BUNDLE BUNDLE --out {out}"
        )
    sources = read_sources(folders, out)
    together = check_together(sources)
    for source in sources:
        check_nothing_shared(source)
    if all(source.method == sources[0].method for source in sources):
        _join(sources, together, out)
        method, notes = sources[0].method, together.notes
    else:
        _check_unifiable(sources)
        method, more = _unify(sources, together, out, encoder)
        notes = (*together.notes, *more)
    return Assembled(out, tuple(name for source in sources for name in source.names), method, notes)


def _join(sources: Sequence[Source], together: Together, out: Path) -> None:
    """Put the files side by side: a task is a file, and does not depend on its company."""
    first = sources[0]
    with_encoder = next((source for source in sources if source.said["encoder"]["included"]), None)
    with new_folder(out) as work:
        (work / "tasks").mkdir()
        shutil.copyfile(first.folder / SHARED_FILE, work / SHARED_FILE)
        stands_on = {
            "encoder": first.said["encoder"]["sha256"],
            "shared": file_sha256(work / SHARED_FILE),
            "method": method_sha256(first.said["method"]),
        }
        for source in sources:
            for name in source.names:
                facts = {"task": source.facts[name], "stands_on": stands_on}
                tensors = load_file(task_file(source.folder, name))
                for key, value in tensors.items():
                    check_finite(f"{task_file(source.folder, name)}: {key}", value)
                save_file(tensors, task_file(work, name), {METADATA: json.dumps(facts, sort_keys=True)})
        if with_encoder is not None:
            shutil.copytree(with_encoder.folder / "encoder", work / "encoder")
        said = {
            **first.said,
            "weft": __version__,
            "encoder": (with_encoder or first).said["encoder"],
            "tasks": [name for source in sources for name in source.names],
            "heads": {**first.said["heads"], "dropout": together.head_dropout},
            "max_length": together.max_length,
        }
        write_json(work / MANIFEST, said)


def _differences(one: Method, two: Method) -> dict[str, tuple[Any, Any]]:
    """The settings in which two methods differ that have the same parts, or are both LoRA."""
    found = {}
    for number, parts in enumerate(zip(one.parts, two.parts, strict=True)):
        left, right = (part.model_dump(mode="json") for part in parts)
        of = f"part {number + 1} ({parts[0].name}), " if len(one.parts) > 1 else ""
        for key in {**left, **right}:
            if left.get(key) != right.get(key):
                found[of + key] = left.get(key), right.get(key)
    return found


def _check_unifiable(sources: Sequence[Source]) -> None:
    """Whether the methods differ in nothing but where and how LoRA's updates are written down."""
    first = sources[0]
    for other in sources[1:]:
        lora = all(type(source.method) in (Lora, LoraBitfit) for source in (first, other))
        if not lora and _told(first) != _told(other):
            raise WeftError(
                f"the bundles have other methods: {_told(first)} in {first.manifest}, {_told(other)} in "
                f"{other.manifest}; expected one method: train them with the same"
            )
        allowed = UNIFIED if lora else ()
        differ = _differences(first.method, other.method)
        if wrong := [key for key in differ if key not in allowed]:
            lines = [f"  {key}: {differ[key][0]!r} and {differ[key][1]!r}" for key in wrong]
            may = f"; in {', '.join(allowed)} they may differ" if allowed else ""
            raise WeftError(
                f"method {_told(first)!r} has other settings in {first.manifest} and {other.manifest}:\n"
                + "\n".join(lines)
                + f"\n  Train both with the same settings{may}"
            )


def _told(source: Source) -> str:
    return "+".join(part.name for part in source.method.parts)


def _unify(
    sources: Sequence[Source], together: Together, out: Path, encoder: Any
) -> tuple[Method, tuple[str, ...]]:
    """One LoRA for all: at each site of any the largest rank, and a scale of 1."""
    updates, bare = updates_of_all(sources, encoder)
    method = _unified(sources, updates, sites_of(bare.model))
    model = model_of(bare, updates, method, together, sources[0].said["seed"])
    with torch.no_grad():
        for site, adapter in model.placements:
            for number, mine in enumerate(updates):
                if isinstance(adapter, LoraAdapter):
                    up, down = mine.factors(site)
                    adapter.slot("B", number)[:, : up.size(1)] = up
                    adapter.slot("A", number)[: down.size(0)] = down
                elif isinstance(adapter, BiasAdapter):
                    adapter.slot("v", number).copy_(mine.bias(site))
    model.save(out, with_encoder=any(source.said["encoder"]["included"] for source in sources))
    return method, _notes(sources)


def _notes(sources: Sequence[Source]) -> tuple[str, ...]:
    """In which settings that matter the bundles differed."""
    said = [source.method.model_dump(mode="json") for source in sources]
    notes = []
    dropouts = {one["dropout"] for one in said}
    if len(dropouts) > 1:
        notes.append(f"dropout of the updates is {sorted(dropouts)}; the largest, {max(dropouts)}, is taken")
    for key in ("sites", "layers", "biases"):
        values = [one.get(key, "none") for one in said]
        if any(value != values[0] for value in values):
            told = [f"{v} in {s.manifest}" for v, s in zip(values, sources, strict=True)]
            notes.append(f"{key} are {', '.join(told)}; all are taken, with zeros where a task has none")
    return tuple(notes)


def _unified(sources: Sequence[Source], updates: Sequence[TaskUpdates], sites: Sites) -> Method:
    """The method that has room for all updates."""
    methods = [source.method for source in sources if isinstance(source.method, Lora)]
    kinds = tuple(kind for kind in LINEAR if any(kind in method.sites for method in methods))
    layers = sorted({n for method in methods for n in parse_layers(method.layers, sites.num_layers)})
    # of rank 0, which leaves it out, where no task has an update
    ranks = {site.key: 0 for site in sites.available(kinds, layers)}
    for mine in updates:
        for site, (up, _) in mine.weights.items():
            ranks[site.key] = max(ranks[site.key], up.size(1))
    rank = max((*ranks.values(), 1))
    settings: dict[str, Any] = {
        **methods[0].model_dump(),
        "rank": rank,
        "rank_pattern": {key: r for key, r in ranks.items() if r != rank},
        "alpha": None,
        "l0": None,
        "dropout": max(method.dropout for method in methods),
        "sites": kinds,
    }
    if any(method.layers != methods[0].layers for method in methods):
        settings["layers"] = "all" if len(layers) == sites.num_layers else layers
    with_biases = [method.biases for method in methods if isinstance(method, LoraBitfit)]
    if not with_biases:
        return Lora(**settings)
    # each holds those before it
    widest = max(with_biases, key=lambda name: len(BIASES[name]))
    return LoraBitfit(**{**settings, "biases": widest})
