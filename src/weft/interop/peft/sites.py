"""Assigning the tensors of a PEFT folder to sites of an encoder, by the paths of its modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from weft.encoder.anatomy import sites_of
from weft.encoder.sites import LINEAR, NORM, Site
from weft.errors import WeftError, did_you_mean
from weft.interop.peft.folder import PeftFolder
from weft.interop.peft.format import (
    CLASSIFIER,
    classifier_of,
    classifier_tensors,
    has_encoders_pooler,
    with_classifier,
)


@dataclass
class SiteUpdates:
    """The updates of a folder, by site of the encoder.

    Attributes:
        named: the linear sites that have a LoRA in the folder, which may be zero.
        factors: B with its scale [o, k] and A [k, i] of each linear site whose LoRA is not zero.
        magnitudes: m [o] of each linear site with a DoRA.
        biases: Δb [o] of each linear site.
        norms: Δweight [d] and Δbias [d] of each norm.
        head: `weight` [C, d] and `bias` [C], if the folder has the task's head.
    """

    named: list[Site] = field(default_factory=list)
    factors: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)
    magnitudes: dict[Site, Tensor] = field(default_factory=dict)
    biases: dict[Site, Tensor] = field(default_factory=dict)
    norms: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)
    head: dict[str, Tensor] | None = None

    def leave_out(self, kind: str) -> bool:
        """Remove the updates at the sites of a kind; return whether there were any."""
        self.named = [site for site in self.named if site.kind != kind]
        gone = [site for site in (*self.factors, *self.magnitudes, *self.biases) if site.kind == kind]
        for site in gone:
            self.factors.pop(site, None)
            self.magnitudes.pop(site, None)
            self.biases.pop(site, None)
        return bool(gone)


@torch.no_grad()
def site_updates(peft: PeftFolder, encoder: Any) -> SiteUpdates:
    """Find the site of every tensor of a folder; a tensor without a site is refused by name.

    Args:
        peft: the folder.
        encoder: the bare Hugging Face encoder.
    """
    by_path: dict[str, list[Site]] = {}
    for site in sites_of(encoder):
        if site.kind in (*LINEAR, *NORM):
            by_path.setdefault(site.path, []).append(site)
    linear = {path: sites for path, sites in by_path.items() if sites[0].kind in LINEAR}
    updates = SiteUpdates()
    for path, parts in peft.modules().items():
        inside = _inside(path, encoder)
        if inside not in linear:
            last, names = inside.rpartition(".")[2], {site_path.rpartition(".")[2] for site_path in linear}
            raise WeftError(
                f"{peft.folder}: a LoRA of {path!r}, which is not a linear site of this "
                f"{encoder.config.model_type} encoder; {did_you_mean(last, names)}"
            )
        _check_widths(peft, path, parts, encoder.get_submodule(inside))
        for site in linear[inside]:
            _cut(updates, site, parts, encoder.get_submodule(inside).weight.detach())
    norms = {path: sites[0] for path, sites in by_path.items() if sites[0].kind in NORM}
    _add_whole_modules(updates, peft, encoder, norms)
    if peft.head is not None:
        if updates.head is not None:
            raise WeftError(f"{peft.folder} has two heads, head.safetensors and a {CLASSIFIER}; remove one")
        updates.head = _checked_head(peft, peft.head, encoder.config.hidden_size)
    return updates


def _inside(path: str, encoder: Any) -> str:
    """A module's path from the encoder's root; a model with a head has a prefix for the encoder."""
    return path.removeprefix(f"{encoder.base_model_prefix}.")


def _check_widths(peft: PeftFolder, path: str, parts: Mapping[str, Tensor], module: Any) -> None:
    outer, inner = module.weight.shape
    if parts["A"].size(1) != inner or parts["B"].size(0) != outer:
        raise WeftError(
            f"{peft.folder}: the LoRA of {path!r} has A {list(parts['A'].shape)} and B "
            f"{list(parts['B'].shape)}; the encoder's map is [{outer}, {inner}]: this is a different encoder"
        )


def _cut(updates: SiteUpdates, site: Site, parts: Mapping[str, Tensor], weight: Tensor) -> None:
    """Add one site's slice of a module's LoRA.

    A slice of a DoRA without an update whose magnitudes are the norms of the weight is the weight itself, and
    left out.

    A site that is a slice of its module gets the rows of B of that slice, and the components of A that these
    rows use: a component that only other slices use is left out. A component that no slice uses yet goes to
    all.
    """
    updates.named.append(site)
    up, down = site.rows(parts["B"]), parts["A"]
    kept = up.any(0) | ~parts["B"].any(0)
    if down.any() and kept.any():  # a bias without a weight update has a LoRA of zeros
        updates.factors[site] = (up[:, kept], down[kept])
    if "m" in parts:
        magnitudes, norms = site.rows(parts["m"]), site.rows(weight).float().norm(dim=1)
        if site in updates.factors or not torch.allclose(magnitudes.to(norms.device), norms, rtol=1e-6):
            updates.magnitudes[site] = magnitudes
    if "bias" in parts:
        updates.biases[site] = site.rows(parts["bias"])


def _add_whole_modules(
    updates: SiteUpdates, peft: PeftFolder, encoder: Any, norms: Mapping[str, Site]
) -> None:
    """Add norms and the family's classifier, which were saved whole."""
    classifier: dict[str, Tensor] = {}
    changed: dict[str, dict[str, Tensor]] = {}
    for key, value in peft.others().items():
        path, _, name = key.rpartition(".")
        if key.startswith(f"{CLASSIFIER}."):
            classifier[key.removeprefix(f"{CLASSIFIER}.")] = value
        elif _inside(path, encoder) in norms:
            changed.setdefault(_inside(path, encoder), {})[name] = value
        else:
            raise WeftError(
                f"{peft.folder}: {path!r} was saved whole (modules_to_save), and weft cannot use it; "
                "expected norms, or the classifier of a family whose head weft has "
                f"({', '.join(with_classifier())})"
            )
    for path, values in changed.items():
        updates.norms[norms[path]] = _norm_change(peft, path, values, encoder.get_submodule(path))
    if classifier:
        updates.head = _classifier(peft, classifier, encoder)


def _norm_change(
    peft: PeftFolder, path: str, values: Mapping[str, Tensor], norm: Any
) -> tuple[Tensor, Tensor]:
    current = {name: value.detach() for name, value in norm.named_parameters()}
    for name in {*current, *values}:
        if name not in current or name not in values or current[name].shape != values[name].shape:
            raise WeftError(
                f"{peft.folder}: {path}.{name} does not fit the encoder's norm: is this a different encoder?"
            )
    weight = values["weight"].to(current["weight"].device) - current["weight"]
    bias = (
        values["bias"].to(current["bias"].device) - current["bias"]
        if "bias" in current
        else torch.zeros_like(weight)
    )
    return weight, bias


def _classifier(peft: PeftFolder, tensors: dict[str, Tensor], encoder: Any) -> dict[str, Tensor]:
    """Return weft's head from the family's classifier, if the two are the same function."""
    family = encoder.config.model_type
    if not peft.classifies_sequences:
        raise WeftError(
            f"{peft.folder}: its {CLASSIFIER} was saved whole (modules_to_save); its task_type is "
            f"{peft.config.get('task_type')!r}, and weft reads a {CLASSIFIER} only of SEQ_CLS"
        )
    classifier = classifier_of(encoder)
    if classifier is None:
        raise WeftError(
            f"{peft.folder}: the {CLASSIFIER} of {family} has a separate hidden layer, which no head of "
            f"weft has; expected that of {', '.join(with_classifier())}, or a LoRA of the encoder only"
        )
    if getattr(encoder, "pooler", None) is None:
        raise WeftError(
            f"{peft.folder}: its {CLASSIFIER} reads a pooler, and this encoder has no weights for one"
        )
    width = encoder.config.hidden_size
    like = classifier_tensors(encoder, torch.empty(0, width), torch.empty(0))
    if set(like) != set(tensors):
        odd = sorted(set(like) ^ set(tensors))[0]
        raise WeftError(f"{peft.folder}: {CLASSIFIER}.{odd} does not fit the {CLASSIFIER} of {family}")
    if not has_encoders_pooler(encoder, tensors):
        raise WeftError(
            f"{peft.folder}: {CLASSIFIER}.{classifier.pooler}weight is not the encoder's pooler: it is a "
            "separate "
            "hidden layer of the head, which no head of weft has"
        )
    return _checked_head(peft, {n: tensors[f"{classifier.output}{n}"] for n in ("weight", "bias")}, width)


def _checked_head(peft: PeftFolder, head: Mapping[str, Tensor], width: int) -> dict[str, Tensor]:
    shapes = {name: list(value.shape) for name, value in head.items()}
    size = head["bias"].numel() if "bias" in head else 0
    if shapes != {"weight": [size, width], "bias": [size]}:
        raise WeftError(f"{peft.folder}: the head has {shapes}; expected weight [C, {width}] and bias [C]")
    return {name: value.float() for name, value in head.items()}
