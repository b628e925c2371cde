"""Inputs, routes and probes for tests of weaving."""

from __future__ import annotations

import torch

from tests.support.probe import Probe
from tests.support.tiny import CORE_FAMILIES, FAMILIES
from weft.core.route import Route
from weft.encoder.anatomy import sites_of
from weft.encoder.sites import LINEAR, NORM

EVERY = [*FAMILIES, *CORE_FAMILIES]
EAGER_ONLY = ("mpnet", "deberta-v3", "deberta-v2", "deberta", "megatron-bert", "rembert", "roformer")
BOTH = [(f, a) for f in EVERY for a in ("sdpa", "eager") if a == "eager" or f not in EAGER_ONLY]


def inputs(encoder, rows=4, length=9):
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(5, 99, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    mask[3, 4:] = 0
    return {"input_ids": ids.where(mask.bool(), encoder.config.pad_token_id or 0), "attention_mask": mask}


def route_for(given, layers=None):
    rows = given["input_ids"].size(0)
    return Route(torch.arange(rows) % 2, given["attention_mask"].bool(), layers)


def everywhere(encoder, make=Probe):
    return [(site, make(site)) for site in sites_of(encoder)]


def zero_term(site):
    shape = {"scores": (1, 1, 1, 1)}.get(site.kind, (1, 1, site.out_width))
    if site.kind in LINEAR or site.kind in NORM:
        return Probe(site, lambda x, route: torch.zeros(shape))
    return Probe(site)
