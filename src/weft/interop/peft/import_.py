"""Importing a LoRA or DoRA folder of PEFT as a weft model with one task."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.adapters.bias import BiasAdapter
from weft.adapters.dora import DoraAdapter
from weft.adapters.lora import LoraAdapter
from weft.adapters.task_norm import TaskNormAdapter
from weft.encoder.anatomy import sites_of
from weft.encoder.load import Encoder, as_encoder, weights_sha256
from weft.encoder.packages import PACKAGES
from weft.encoder.sites import LINEAR, OUTSIDE, Site
from weft.errors import WeftError, words
from weft.interop.peft.folder import PeftFolder, read_folder
from weft.interop.peft.format import CONFIG_FILE, WEFT_FILE
from weft.interop.peft.sites import SiteUpdates, site_updates
from weft.methods import Bitfit, Composed, Dora, Lora, LoraBitfit, Method, TaskNorm
from weft.model.model import Model
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.labelled import Labelled
from weft.tasks.task import Task


def load_peft(folder: str | Path, encoder: Any = None, task: str | Task | None = None) -> Model:
    """Load a model with one task that computes what PEFT computes with this folder.

    Its method is `lora` with every scale folded into B, or `lora_bitfit` if biases of the blocks' linear maps
    were added; of a DoRA it is `dora`. `bitfit` is added for other biases (of the pooler, of norms), and
    `task_norm` if norms with changed weights were saved whole. Notes for the user are warnings.

    Args:
        folder: a folder written by PEFT's `save_pretrained`, or by `export_peft`.
        encoder: as in `Model`; by default the encoder that the folder names.
        task: the task, or its name if the folder is an export of weft, which has its settings.
    """
    settings = task.settings() if isinstance(task, Task) else {} if task is None else {"name": task}
    model, notes = read_peft(folder, encoder, settings)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return model


def read_peft(
    folder: str | Path, encoder: Any, overrides: Mapping[str, Any]
) -> tuple[Model, tuple[str, ...]]:
    """Like `load_peft`, but return the notes instead of warning.

    Args:
        folder: the folder.
        encoder: as in `Model`, or None.
        overrides: settings of the task that override those of the folder: `name`, `kind`, `labels`, `texts`,
            ….
    """
    peft = read_folder(folder)
    task = _task(peft, overrides)
    base = _encoder(peft, encoder)
    updates = site_updates(peft, base.model)
    notes = list(base.notes)
    pool = _pool(peft, updates, base)
    if pool != "pooler" and updates.leave_out("pooler"):
        notes.append(
            f"the update of the pooler is left out: the head reads {pool!r}, and nothing reads the pooler"
        )
    if updates.head is None:
        notes.append(
            f"{peft.folder} has no head for the task {task.name!r}: it starts from initial values and must "
            "be trained"
        )
    elif len(updates.head["bias"]) != task.size:
        raise WeftError(
            f"{peft.folder}: its head has {len(updates.head['bias'])} outputs; the task {task.name!r} has "
            f"{task.size} ({task.head})"
        )
    saved = peft.weft_settings or {"max_length": None, "seed": 0}
    method = _method(updates, sites_of(base.model).num_layers, peft.dropout)
    if peft.dropout and not any(isinstance(part, Lora | Dora) for part in method.parts):
        notes.append(
            f"lora_dropout {peft.dropout} is left out: it has no effect, because no weight is updated"
        )
    # the seed too: a bundle generates a random encoder again from it
    model = Model(base, [task], method, pool=pool, max_length=saved["max_length"], seed=saved["seed"]).eval()
    _fill(model, updates)
    return model, tuple(notes)


def _task(peft: PeftFolder, overrides: Mapping[str, Any]) -> Task:
    """Return the task; `overrides` take precedence over weft.json."""
    settings: dict[str, Any] = {}
    if peft.weft_settings is not None:
        settings = dict(peft.weft_settings["task"])
        if "kind" in overrides or "labels" in overrides:  # the other settings belong to the old labels
            settings = {key: value for key, value in settings.items() if key in ("name", "texts")}
    settings |= overrides
    if "name" not in settings:
        raise WeftError(
            f"{peft.folder} does not name its task; pass {words('--task NAME', 'task=weft.Task(NAME, …)')}"
        )
    kind = KINDS[str(settings.get("kind", "classify"))]  # an unknown kind is reported first
    if issubclass(kind, Labelled) and not settings.get("labels") and not settings.get("size"):
        raise WeftError(
            f"{peft.folder} does not say what the labels of task {settings['name']!r} are; pass them in the "
            "order of their ids: "
            + words("--labels no,yes, or --kind regress", "task=weft.Task(NAME, labels=['no', 'yes'])")
        )
    values: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
    try:
        return Task(**values)
    except (TypeError, AttributeError) as wrong:
        raise WeftError(f"{peft.folder / WEFT_FILE}: task: {wrong}") from None


def _encoder(peft: PeftFolder, encoder: Any) -> Encoder:
    """Load the encoder that was passed or that the folder names; it must be the exported one."""
    saved = peft.weft_settings or {"encoder": {}, "seed": 0}
    where = encoder
    if where is None:
        where = saved["encoder"].get("name")
        # a package or folder of this machine; else what PEFT's file names, which is meant for any machine
        if where not in PACKAGES and not (where and Path(where).is_dir()):
            where = peft.config.get("base_model_name_or_path") or where
        if not where:
            passed = words("--encoder NAME", "encoder=NAME")
            raise WeftError(f"{peft.folder / CONFIG_FILE} does not name its encoder; pass {passed}")
    try:
        base = as_encoder(where, seed=saved["seed"])
    except WeftError as wrong:
        if encoder is not None:
            raise
        raise WeftError(
            f"{wrong}\n  {peft.folder / CONFIG_FILE} names it; pass its folder or hub id: "
            f"{words('--encoder NAME', 'encoder=NAME')}"
        ) from None
    expected = saved["encoder"].get("weights_sha256")
    if expected is not None and (actual := weights_sha256(base.model)) != expected:
        raise WeftError(
            f"encoder {base.name!r} is not the one that {peft.folder} was exported with:\n"
            f"  sha256 found    {actual}\n  sha256 expected {expected}"
        )
    return base


def _pool(peft: PeftFolder, updates: SiteUpdates, base: Encoder) -> str:
    """The pooling of the head: as exported; the pooler for a classifier; else the default of `Model`."""
    if peft.weft_settings is not None:
        return str(peft.weft_settings["pool"])
    if updates.head is not None and peft.head is None:
        return "pooler"
    has_pooler = getattr(base.model, "pooler", None) is not None
    return base.pooling or ("pooler" if has_pooler else "cls")


def _method(updates: SiteUpdates, num_layers: int, dropout: float) -> Method:
    """Return a method whose adapters hold all updates, if possible one that bundles of other folders can
    join.

    Its sites are kinds × layers: if the folder has no update at a site, the rank is 0 and a bias stays zero.
    """
    ranks = {site: up.size(1) for site, (up, _) in updates.factors.items()}
    ranks |= {site: 1 for site in updates.magnitudes if site not in ranks}  # of zeros, beside magnitudes
    low_rank: type[Lora | Dora] = Dora if updates.magnitudes else Lora
    outside = any(bias.any() for site, bias in updates.biases.items() if site.kind in OUTSIDE)
    if not updates.norms and not outside:
        biases = [site for site in updates.biases if site.kind not in OUTSIDE]
        # without any update: one component of zeros, or none if there are biases
        ranks = ranks or dict.fromkeys(updates.named, 0 if biases else 1)
        if biases:
            return LoraBitfit(**_ranks(ranks, biases, num_layers), dropout=dropout)
        return low_rank(**_ranks(ranks, (), num_layers), dropout=dropout)
    parts: list[Method] = []
    if ranks:
        parts.append(low_rank(**_ranks(ranks, (), num_layers), dropout=dropout))
    weights = any(weight.any() for weight, _ in updates.norms.values())
    if updates.norms and not weights:
        parts.append(Bitfit(biases="all"))  # a kind of norm that one layer lacks cannot be selected by name
    elif updates.biases:
        kinds, layers = _grid(updates.biases)
        parts.append(Bitfit(sites=kinds, layers=layers))
    if weights:
        parts.append(TaskNorm())
    return parts[0] if len(parts) == 1 else Composed(methods=tuple(parts))


def _ranks(ranks: Mapping[Site, int], biases: Iterable[Site], num_layers: int) -> dict[str, Any]:
    """The settings of a LoRA with these ranks, in layers that also include these biases."""
    kinds, _ = _grid(ranks)
    _, layers = _grid((*ranks, *biases))
    rank = max((*ranks.values(), 1))
    by_key = {site.key: r for site, r in ranks.items()}
    grid = [kind if kind in OUTSIDE else f"{n}/{kind}" for kind in kinds for n in layers]
    return {
        "rank": rank,
        "sites": kinds or ("query",),  # every family has this site
        "layers": "all" if len(layers) == num_layers else layers,
        "rank_pattern": {key: by_key.get(key, 0) for key in grid if by_key.get(key, 0) != rank},
    }


def _grid(sites: Iterable[Site]) -> tuple[tuple[str, ...], list[int]]:
    """The kinds and the layers of sites; [0] if all are outside the blocks, since some layer is needed."""
    sites = list(sites)
    kinds = tuple(kind for kind in LINEAR if any(site.kind == kind for site in sites))
    return kinds, sorted({site.layer for site in sites if site.layer is not None}) or [0]


@torch.no_grad()
def _fill(model: Model, updates: SiteUpdates) -> None:
    """Copy every value to its adapter; adapters without a value in the folder stay zero."""
    for site, adapter in model.placements:
        if isinstance(adapter, LoraAdapter):
            if site in updates.factors:
                up, down = updates.factors[site]
                _copy(adapter, A=down, B=up)
            if isinstance(adapter, DoraAdapter):
                _copy(adapter, m=updates.magnitudes[site])
        elif isinstance(adapter, TaskNormAdapter) and site in updates.norms:
            weight, bias = updates.norms[site]
            _copy(adapter, weight=weight, bias=bias)
        elif isinstance(adapter, BiasAdapter):
            value = updates.norms[site][1] if site in updates.norms else updates.biases.get(site)
            if value is not None:
                _copy(adapter, v=value)
    if updates.head is not None:
        (head,) = model.heads.values()
        _copy(head, **updates.head)


def _copy(module: Any, **values: Tensor) -> None:
    """Fill the one slot of stacked parameters."""
    for name, value in values.items():
        module.get_parameter(name)[0].copy_(value)
