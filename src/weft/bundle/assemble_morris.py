"""Make one MORRIS bundle of LoRA tasks that were trained separately.

A, B and C come from a CP decomposition of the LoRA updates, D and E from an SVD of the bias updates. The
paper leaves this as future work. At each site the updates of all tasks are the slices of a tensor
Q [o, T, i], Q[:, t] = ΔW_t, and MORRIS's update is a tensor of CP rank r:
Q ≈ Σ_s A[:, s] ∘ B[:, s] ∘ C[:, s]. The biases are the columns of a matrix [o, T] ≈ D·E.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from weft.adapters.cp import CpAdapter
from weft.adapters.low_rank_bias import LowRankBiasAdapter
from weft.bundle.assemble import Assembled
from weft.bundle.cp_decomposition import cp_of_products, product_norm, truncated_svd
from weft.bundle.sources import Source, check_together, read_sources
from weft.bundle.updates import TaskUpdates, model_of, updates_of_all
from weft.bundle.writing import writing_bundle
from weft.encoder.anatomy import sites_of
from weft.encoder.sites import KINDS, Site
from weft.errors import WeftError, words
from weft.methods.morris import Morris
from weft.methods.ranked import BIASES

if TYPE_CHECKING:
    from weft.encoder.load import Encoder


@dataclass(frozen=True)
class SiteError:
    """How well the updates of one site were approximated.

    Attributes:
        site: the site's key.
        what: the updates of its weight or of its bias.
        components: the number of components of all tasks' updates together: Σk, or T for a bias.
        rank: the rank of the decomposition, which is exact if the rank is at least `components`.
        norm: ‖Q‖, the norm of all tasks' updates together.
        error: ‖Q − Q̂‖, where Q̂ is what is written, in float32.
    """

    site: str
    what: Literal["weight", "bias"]
    components: int
    rank: int
    norm: float
    error: float

    @property
    def relative(self) -> float:
        """‖Q − Q̂‖/‖Q‖; 0 if the updates are zero."""
        return self.error / self.norm if self.norm else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The site and its relative error, as JSON values."""
        shown = {key: getattr(self, key) for key in ("site", "what", "components", "rank")}
        return {**shown, "relative_error": self.relative}


def relative_error(sites: Sequence[SiteError]) -> float | None:
    """The relative error of several sites together; None if their updates are zero, or if there are none."""
    norm = math.hypot(*(site.norm for site in sites))
    return math.hypot(*(site.error for site in sites)) / norm if norm else None


@dataclass(frozen=True)
class AssembledMorris(Assembled):
    """The result of `assemble_morris`.

    Attributes:
        errors: the error of each site.
    """

    errors: tuple[SiteError, ...]

    def relative(self, what: str) -> float | None:
        """The relative error of all weights, or of all biases, together; None if there are none."""
        return relative_error([site for site in self.errors if site.what == what])

    def as_dict(self) -> dict[str, Any]:
        """The output of `weft assemble --as morris --json`."""
        return {
            **super().as_dict(),
            "errors": [site.as_dict() for site in self.errors],
            "weight_error": self.relative("weight"),
            "bias_error": self.relative("bias"),
        }


def assemble_morris(
    folders: Sequence[str | Path],
    out: str | Path,
    rank: int = 64,
    bias_rank: int = 4,
    *,
    encoder: Any = None,
    progress: Callable[[str], None] = lambda site: None,
) -> AssembledMorris:
    """Make one MORRIS bundle of all tasks of bundles that update weights at low rank, biases, or both.

    Their methods may differ. The result has adapters where any task has an update: for `lora` alone it has
    `biases: none`. Components that are not needed keep MORRIS's random initial values with B = 0 (or E =
    0). They can be trained further, like all others.

    Args:
        folders: bundles, or run folders; one with several tasks is enough.
        out: the folder of the new bundle.
        rank: the CP rank of the tensor of weight updates.
        bias_rank: the rank of the matrix of bias updates.
        encoder: folder or hub id of the encoder, if it has moved.
        progress: called with each site before it is decomposed, and with "" at the end.
    """
    with writing_bundle(out, words("weft assemble", "weft.assemble")):
        return _assemble_morris(folders, Path(out), rank, bias_rank, encoder, progress)


def _assemble_morris(
    folders: Sequence[str | Path],
    out: Path,
    rank: int,
    bias_rank: int,
    encoder: Any,
    progress: Callable[[str], None],
) -> AssembledMorris:
    Morris(rank=rank, bias_rank=bias_rank)  # wrong numbers are reported before anything is read
    if not folders:
        raise WeftError(
            "no bundle; expected one or more: "
            + words(
                f"weft assemble BUNDLE BUNDLE --as morris --out {out}",
                "weft.assemble([BUNDLE, BUNDLE], OUT, method='morris')",
            )
        )
    sources = read_sources(folders, out)
    together = check_together(sources)
    for source in sources:
        _check_encoder_is_frozen(source)
    updates, bare = updates_of_all(sources, encoder)
    for source in sources:
        source.check_unchanged()
    method = _method(sources, updates, bare, rank, bias_rank)
    model = model_of(bare, updates, method, together, sources[0].manifest["seed"])
    errors = []
    for site, adapter in model.placements:
        progress(site.key)
        if isinstance(adapter, CpAdapter):
            errors.append(_fill_tensor(adapter, updates, model.seed))
        elif isinstance(adapter, LowRankBiasAdapter):
            errors.append(_fill_matrix(adapter, updates))
        if errors and not math.isfinite(
            errors[-1].norm + errors[-1].error
        ):  # the factors may be finite, and their products not
            raise WeftError(f"{site.key}: the updates are not finite numbers; the model did not train well")
    progress("")
    model.save(out, with_encoder=any(source.manifest["encoder"]["included"] for source in sources))
    names = tuple(task.name for task in model.tasks)
    return AssembledMorris(out, names, method, together.notes, tuple(errors))


def _check_encoder_is_frozen(source: Source) -> None:
    trained = next((key for key in source.shared_keys() if key.startswith("encoder.")), None)
    if source.method.separate or trained is not None:
        where = source.manifest_path if trained is None else source.folder / "shared.safetensors"
        raise WeftError(
            f"{where}: method {source.method.name!r} trains the encoder itself"
            + (f" ({trained!r})" if trained else "")
            + "; MORRIS needs a frozen encoder: train with lora, lora_bitfit or bitfit, train_encoder: none"
        )


def _method(
    sources: Sequence[Source], updates: Sequence[TaskUpdates], encoder: Encoder, rank: int, bias_rank: int
) -> Morris:
    """MORRIS with exactly the sites that some task updates."""
    weights = {site for task_updates in updates for site in task_updates.weights}
    biases = {site for task_updates in updates for site in task_updates.biases}
    if not weights and not biases:
        names = ", ".join(dict.fromkeys(source.method.name for source in sources))
        raise WeftError(
            f"{sources[0].folder}: method {names} updates no weight and no bias, so that there is nothing to "
            "decompose; expected lora, lora_bitfit or bitfit"
        )
    for site in biases:
        if site.kind not in BIASES["all"]:
            raise WeftError(
                f"a task updates the bias of {site.key!r}, which MORRIS does not have: it has those of the "
                "blocks; train with bitfit and biases: blocks (or dense), or with lora_bitfit"
            )
    sites = sites_of(encoder.model)
    layers = sorted({site.layer for site in (*weights, *biases) if site.layer is not None})
    every = len(layers) == sites.num_layers or not layers
    settings: dict[str, Any] = {"rank": rank, "bias_rank": bias_rank, "layers": "all" if every else layers}
    if weights:
        settings["sites"] = tuple(kind for kind in KINDS if any(site.kind == kind for site in weights))
    biases_name = next(
        name for name in ("none", "dense", "all") if {site.kind for site in biases} <= set(BIASES[name])
    )
    settings["biases"] = biases_name
    of_weights = sites.available(settings.get("sites", Morris().sites), settings["layers"])
    of_biases = sites.available(BIASES[biases_name], settings["layers"])
    settings["rank_pattern"] = {site.key: 0 for site in of_weights if site not in weights}
    settings["bias_rank_pattern"] = {site.key: 0 for site in of_biases if site not in biases}
    return Morris(**settings)


@torch.no_grad()
def _fill_tensor(adapter: CpAdapter, updates: Sequence[TaskUpdates], seed: int) -> SiteError:
    """Write A, B and C of one site. The columns of A and C get the mean norm of their random start."""
    site: Site = adapter.site
    ups, downs = zip(*(task_updates.factors(site) for task_updates in updates), strict=True)
    cp = cp_of_products(ups, downs, adapter.rank, seed)
    norms_a, norms_c = cp.a.norm(dim=0), cp.c.norm(dim=0)
    used = (cp.b.norm(dim=0) * norms_a * norms_c > 0).nonzero()[:, 0]
    # the variance of a uniform initial value in ±1/√n is 1/(3n): A has n = r and o rows, C has n = i and i
    # rows
    size_a, size_c = math.sqrt(site.out_width / (3 * adapter.rank)), math.sqrt(1 / 3)
    a = cp.a[:, used] * (size_a / norms_a[used])
    c = cp.c[:, used] * (size_c / norms_c[used])
    b = cp.b[:, used] * (norms_a[used] * norms_c[used] / (size_a * size_c))
    count = len(used)
    adapter.slot("A", 0)[:, :count] = a
    adapter.slot("C", 0)[:, :count] = c
    for number in range(len(updates)):
        adapter.slot("B", number)[:count] = b[number]
    norms, errors = [], []
    for number, (up, down) in enumerate(zip(ups, downs, strict=True)):
        new_up, new_down = adapter.low_rank_delta(number)
        norms.append(product_norm(up, down))
        errors.append(product_norm(torch.cat([up, -new_up], 1), torch.cat([down, new_down])))
    components = sum(up.size(1) for up in ups)
    return SiteError(site.key, "weight", components, adapter.rank, math.hypot(*norms), math.hypot(*errors))


@torch.no_grad()
def _fill_matrix(adapter: LowRankBiasAdapter, updates: Sequence[TaskUpdates]) -> SiteError:
    """Write D and E of one site. The columns of D get the mean norm of their random initial values."""
    site: Site = adapter.site
    matrix = torch.stack([task_updates.bias(site) for task_updates in updates], 1)  # [o, T]
    left, right = truncated_svd(matrix, adapter.rank)
    size = math.sqrt(site.out_width / (3 * adapter.rank))
    count = left.size(1)
    adapter.slot("D", 0)[:, :count] = left * size
    for number in range(len(updates)):
        adapter.slot("E", number)[:count] = right[:, number] / size
    written: list[Tensor] = [adapter.weight_delta(number)[1] for number in range(len(updates))]
    error = (matrix.double() - torch.stack(written, 1)).norm()
    return SiteError(
        site.key, "bias", len(updates), adapter.rank, float(matrix.double().norm()), float(error)
    )
