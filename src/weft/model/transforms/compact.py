"""Compaction: removes a model's gates and the components that they have shut."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from weft.adapters.ranked import RankedAdapter
from weft.encoder.weave import unweave
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model


@torch.no_grad()
def compact(model: Model) -> Model:
    """Return a smaller model: each site has the rank of its open gates; sites without one are removed.

    Gates that are neither open nor shut are multiplied into the weights. If slots have separate gates (LoRA
    per task), a site has the largest of their ranks, and the other slots are padded with zeros.

    Args:
        model: a model with gates; it is not changed.
    """
    from weft.model.model import Model

    ranked = [
        (site, a) for site, a in model.placements if isinstance(a, RankedAdapter) and a.gate is not None
    ]
    if not ranked:
        raise WeftError(
            f"method {model.method.name!r} has no gates here, and nothing to compact; "
            "train with l0: method={use: morris, l0: true}"
        )
    patterns: list[dict[str, dict[str, int]]] = [{} for _ in model.method.parts]
    for site, adapter in ranked:
        rank = max(len(numbers) for numbers in adapter.live())
        patterns[adapter.part].setdefault(adapter.setting, {})[site.key] = rank
    method = model.method.with_ranks(patterns)
    source = replace(model.encoder_source, model=unweave(copy.deepcopy(model.encoder)))
    if (tokenizer := model.encoder_source.__dict__.get("tokenizer")) is not None:
        source.__dict__["tokenizer"] = tokenizer
    small = Model(
        source,
        model.tasks,
        method,
        pool=model.pool,
        head_dropout=model.head_dropout,
        max_length=model.max_length,
        seed=model.seed,
        kernels=model.kernels,
    )
    kept = [
        adapter
        for site, adapter in model.placements
        if not isinstance(adapter, RankedAdapter)
        or patterns[adapter.part].get(adapter.setting, {}).get(site.key, 1)
    ]
    for (_, new), old in zip(small.placements, kept, strict=True):
        if isinstance(new, RankedAdapter) and isinstance(old, RankedAdapter):
            new.fill_from(old)
        else:
            new.load_state_dict(old.state_dict())
    small.heads.load_state_dict(model.heads.state_dict())
    device: Any = next(model.parameters()).device
    return small.to(device).train(model.training)
