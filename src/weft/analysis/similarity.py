"""The similarity of tasks: the cosine of their updates of the encoder (MORRIS, equations 5 and 9 to 11)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from weft.analysis.json_numbers import numbers
from weft.encoder.sites import KINDS, Site
from weft.errors import WeftError
from weft.methods import METHODS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.adapters.adapter import Adapter
    from weft.model.model import Model

    Matrix = NDArray[np.float64]
    """[T, T]; NaN where a similarity is undefined."""

Part = Literal["weight", "bias"]
PARTS: tuple[Part, ...] = ("weight", "bias")
PLURAL: dict[Part, str] = {"weight": "weights", "bias": "biases"}


@dataclass(frozen=True, eq=False)
class SiteSimilarity:
    """The similarities of T tasks at one site.

    Attributes:
        site: the site.
        weight: S^weight [T, T]; None if the site's weight is not updated.
        bias: S^bias [T, T]; None if the site's bias is not updated.
    """

    site: Site
    weight: Matrix | None
    bias: Matrix | None

    def of(self, part: Part) -> Matrix | None:
        """One of the two matrices."""
        return self.weight if part == "weight" else self.bias


@dataclass(frozen=True, eq=False)
class Similarity:
    """The similarities of T tasks, site by site and on average.

    Attributes:
        tasks: the names of the matrices' rows and columns.
        sites: the sites that are updated, in the order of `weft.encoder.sites.KINDS` within a layer; those
            outside the layers come last.
        notes: facts needed to interpret the numbers.
    """

    tasks: tuple[str, ...]
    sites: tuple[SiteSimilarity, ...]
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """The kinds of site that are updated, in the order of `weft.encoder.sites.KINDS`."""
        updated = {entry.site.kind for entry in self.sites}
        return [kind for kind in KINDS if kind in updated]

    @property
    def layers(self) -> list[int]:
        """The layers that are updated, ascending."""
        return sorted({entry.site.layer for entry in self.sites if entry.site.layer is not None})

    @property
    def idle(self) -> list[str]:
        """The tasks whose update is zero everywhere, for which similarities are undefined."""
        matrices = [m for part in PARTS for m in self.matrices(part)]
        defined = np.logical_or.reduce([~np.isnan(np.diagonal(m)) for m in matrices])
        return [name for name, is_defined in zip(self.tasks, defined, strict=True) if not is_defined]

    def matrices(self, part: Part, kind: str | None = None, layer: int | None = None) -> list[Matrix]:
        """The sites' matrices [T, T] of weights or of biases.

        Args:
            part: weights or biases.
            kind: only sites of this kind.
            layer: only sites of this layer.
        """
        chosen = [
            entry.of(part)
            for entry in self.sites
            if kind in (None, entry.site.kind) and layer in (None, entry.site.layer)
        ]
        return [m for m in chosen if m is not None]

    def average(self, part: Part, kind: str | None = None, layer: int | None = None) -> Matrix | None:
        """The mean [T, T] of `matrices`, entry by entry over the sites where the entry is defined.

        With a kind and no layer it is the paper's mean over the layers; sites outside the layers count in the
        mean over everything and in that of their kind.

        Returns:
            None if there is no matrix. An entry that is defined nowhere is NaN.
        """
        matrices = self.matrices(part, kind, layer)
        if not matrices:
            return None
        stacked = np.stack(matrices)
        defined = ~np.isnan(stacked)
        count = defined.sum(0)
        total = np.where(defined, stacked, 0.0).sum(0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def within(self, kinds: Sequence[str] | None = None, layers: Sequence[int] | None = None) -> Similarity:
        """Keep only the sites of these kinds in these layers; a kind without such a site is an error.

        Args:
            kinds: the kinds; None for all.
            layers: the numbers of the layers; None for all sites, also those outside the layers.
        """
        kept = self.sites
        if layers is not None:
            kept = tuple(entry for entry in kept if entry.site.layer in layers)
        updated = {entry.site.kind for entry in kept}
        where = "" if layers is None else f" in layers {', '.join(map(str, layers))}"
        for kind in kinds or ():
            if kind not in updated:
                existing = ", ".join(k for k in KINDS if k in updated) or "none"
                raise WeftError(
                    f"site {kind!r} is not updated by this model{where}; sites that are: {existing}"
                )
        if kinds is not None:
            kept = tuple(entry for entry in kept if entry.site.kind in kinds)
        if not kept:
            existing = ", ".join(entry.site.key for entry in self.sites)
            raise WeftError(f"this model updates nothing{where}; sites that are updated: {existing}")
        return replace(self, sites=kept)

    def in_order(self, tasks: Sequence[str]) -> Similarity:
        """Return the similarities with the tasks in a different order."""
        indices = [self.tasks.index(name) for name in tasks]

        def moved(matrix: Matrix | None) -> Matrix | None:
            return None if matrix is None else matrix[np.ix_(indices, indices)]

        sites = (SiteSimilarity(entry.site, moved(entry.weight), moved(entry.bias)) for entry in self.sites)
        return replace(self, tasks=tuple(tasks), sites=tuple(sites))

    def as_dict(self) -> dict[str, Any]:
        """{weight, bias} for each average and site: matrices in the order of the tasks; undefined is null."""

        def both(kind: str | None = None, layer: int | None = None) -> dict[str, Any]:
            return {part: numbers(self.average(part, kind, layer)) for part in PARTS}

        return {
            "order": list(self.tasks),
            "average": both(),
            "by_kind": {kind: both(kind) for kind in self.kinds},
            "by_layer": {str(layer): both(layer=layer) for layer in self.layers},
            "by_site": {
                entry.site.key: {part: numbers(entry.of(part)) for part in PARTS} for entry in self.sites
            },
        }


@torch.no_grad()
def similarity(model: Model) -> Similarity:
    """S[s, t] = ⟨Δ_s, Δ_t⟩ / (‖Δ_s‖·‖Δ_t‖) for every two tasks; Δ_t is task t's update of a weight or a bias.

    It is computed in float64. A low-rank update is not multiplied out if it is the only one of its weight. If
    a task's update is zero, its similarities are NaN.

    Args:
        model: a model with at least two tasks, and with adapters that add to weights or biases.
    """
    _check(model)
    by_site: dict[Site, list[Adapter]] = {}
    others: dict[str, None] = {}
    for site, adapter in model.placements:
        # checked for one task; the factors of a low-rank update are available without multiplying them
        if adapter.low_rank_delta(0) is None and adapter.weight_delta(0) is None:
            others[site.kind] = None
        else:
            by_site.setdefault(site, []).append(adapter)
    if not by_site:
        raise WeftError(_nothing(model))
    sites = []
    differs: dict[Part, bool] = {}  # whether there is an update that not all tasks share
    for site in sorted(by_site, key=_sort_key):
        adapters = [copy.deepcopy(a).to("cpu", torch.float64) for a in by_site[site]]
        products = [adapter.inner_products() for adapter in adapters]
        matrices: dict[Part, Matrix | None] = {"weight": None, "bias": None}
        for index, part in enumerate(PARTS):
            single = [both[index] if both is not None else None for both in products]
            updating = [a for a, product in zip(adapters, single, strict=True) if product is not None]
            if not updating:
                continue
            total = next(product for product in single if product is not None)
            if len(updating) > 1:
                total = _of_sums(updating, index, len(total))
            matrices[part] = cosines(total, f"{site.key}, {part}")
            differs[part] = differs.get(part, False) or not all(map(_is_shared, updating))
        sites.append(SiteSimilarity(site, **matrices))
    names = tuple(task.name for task in model.tasks)
    return Similarity(names, tuple(sites), tuple(_notes(model, differs, list(others))))


def cosines(products: Tensor, where: str = "an update") -> Matrix:
    """G[s, t] / √(G[s, s]·G[t, t]), [T, T] → [T, T]: equations 9 to 11's `normalize`.

    Symmetric and within [-1, 1]; 1 on the diagonal, and NaN in the row and column of a task with G[t, t] = 0.

    Args:
        products: the inner products G of every two tasks' updates.
        where: the site and part, for error messages.
    """
    gram = products.to(torch.float64).cpu().numpy()
    if not np.isfinite(gram).all():
        raise WeftError(f"{where}: the updates are not finite numbers; the model did not train well")
    gram = (gram + gram.T) / 2  # products of several factors are symmetric up to rounding
    squares = np.diagonal(gram)
    norms = np.sqrt(np.where(squares > 0, squares, np.nan))
    cosine = np.clip(gram / norms[:, None] / norms[None, :], -1.0, 1.0)
    cosine = (cosine + cosine.T) / 2
    np.fill_diagonal(cosine, np.where(squares > 0, 1.0, np.nan))
    return cosine


def methods_with_similarity() -> list[str]:
    """The methods whose adapters all add to weights or biases."""
    return [name for name in METHODS if METHODS[name].adds]


def _of_sums(adapters: Sequence[Adapter], index: int, tasks: int) -> Tensor:
    """⟨Δ_s, Δ_t⟩ [T, T], where Δ is the sum of several adapters' updates, with cross terms.

    Args:
        adapters: the adapters that update the weight, or the bias.
        index: 0 for the weight, 1 for the bias, as in `Adapter.weight_delta`.
        tasks: T.
    """
    sums = []
    for task in range(tasks):
        updates = [both[index] for a in adapters if (both := a.weight_delta(task)) is not None]
        sums.append(torch.stack([u for u in updates if u is not None]).sum(0).flatten())
    stacked = torch.stack(sums)  # [T, o·i] or [T, o]
    return stacked @ stacked.T


def _sort_key(site: Site) -> tuple[float, int]:
    return float("inf") if site.layer is None else site.layer, KINDS.index(site.kind)


def _is_shared(adapter: Adapter) -> bool:
    """Whether all tasks use one update."""
    return all(len(set(stack.slots.of_task)) == 1 for stack in adapter.stacks.values())


def _notes(model: Model, differs_by_part: dict[Part, bool], others: Sequence[str]) -> Iterable[str]:
    for part, differs in differs_by_part.items():
        if not differs:
            yield f"all tasks share one update of the {PLURAL[part]}, so that their similarity in it is 1"
    if others:
        yield (f"the adapters at {', '.join(others)} do not add to a weight or a bias and are not compared")
    if any(method.train_encoder != "none" for method in model.method.parts):
        yield "changes of the encoder's weights that all tasks share are not compared"


def _check(model: Model) -> None:
    if model.method.separate:
        raise WeftError(
            "this model's method, separate, has one encoder per task and not the updates: the "
            "encoder before training is not part of it, so that there is nothing to compare; methods that "
            f"have a similarity: {', '.join(methods_with_similarity())}"
        )
    if len(model.tasks) < 2:
        raise WeftError(
            f"this model has one task, {model.tasks[0].name}; a similarity needs at least two tasks"
        )


def _nothing(model: Model) -> str:
    if not model.placements and any(part.adds for part in model.method.parts):
        return "no task has an update: every site was left out, and no similarity is defined"
    names = " + ".join(part.name for part in model.method.parts)
    return (
        f"this model's method, {names}, adds nothing to the encoder's weights or biases, so that there "
        "are no updates to compare; methods that have a similarity: "
        f"{', '.join(methods_with_similarity())}"
    )
