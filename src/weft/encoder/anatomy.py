"""Where each encoder family keeps its sites: one short table a family.

A path may name alternatives, `a|b`: the first that exists is taken. A fused map is cut into equal parts,
`("attn.Wqkv", 0, 3)` being the first of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from weft.encoder.sites import BLOCK_LINEAR, BLOCK_NORM, KINDS, LINEAR, NORM, OUTSIDE, Site, Sites
from weft.errors import WeftError, did_you_mean

Place = str | tuple[str, int, int]


@dataclass(frozen=True)
class Anatomy:
    """One family's table.

    Attributes:
        blocks: the path of the list of blocks.
        in_block: the place of each site inside a block, from the block.
        outside: the place of each site outside the blocks, from the root.
        pre_norm: whether a norm stands before its sub-layer (and not after the residual).
        after_first_block: a module between block 0 and block 1, where there may be one.
        disentangled: whether positions enter by DeBERTa's relative terms, so that `scores` (and a query or
            key map shared with the relative positions) is reached by `disentangled_attention_bias`.
        bias_flags: the configuration's flags for biases, and the sites each of them gives one.
        from_lengths: methods whose result follows from the length of the rows alone: the path of the module,
            and the method's name.
    """

    blocks: str
    in_block: Mapping[str, Place]
    outside: Mapping[str, Place]
    pre_norm: bool = False
    after_first_block: str | None = None
    disentangled: bool = False
    bias_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    from_lengths: tuple[tuple[str, str], ...] = ()


BERT = Anatomy(
    blocks="encoder.layer",
    in_block={
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "scores": "attention.self",
        "attention_out": "attention.output.dense",
        "attention_delta": "attention.output.dropout",
        "norm_1": "attention.output.LayerNorm",
        "ffn_in": "intermediate.dense",
        "ffn_out": "output.dense",
        "ffn_delta": "output.dropout",
        "norm_2": "output.LayerNorm",
    },
    outside={
        "embeddings_norm": "embeddings.LayerNorm",
        "embeddings": "embeddings",
        "pooler": "pooler.dense",
    },
)

ELECTRA = replace(
    BERT,
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings_project|embeddings"},
)

DISTILBERT = Anatomy(
    blocks="transformer.layer",
    in_block={
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "scores": "attention",
        "attention_out": "attention.out_lin",
        "attention_delta": "attention",
        "norm_1": "sa_layer_norm",
        "ffn_in": "ffn.lin1",
        "ffn_out": "ffn.lin2",
        "ffn_delta": "ffn.dropout",
        "norm_2": "output_layer_norm",
    },
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings"},
)

MPNET = replace(
    BERT,
    in_block={
        **BERT.in_block,
        "query": "attention.attn.q",
        "key": "attention.attn.k",
        "value": "attention.attn.v",
        "scores": "attention.attn",
        "attention_out": "attention.attn.o",
        "attention_delta": "attention.dropout",
        "norm_1": "attention.LayerNorm",
    },
    from_lengths=(("encoder", "relative_position_bucket"),),
)

DEBERTA_V2 = replace(
    BERT,
    in_block={
        **BERT.in_block,
        "query": "attention.self.query_proj",
        "key": "attention.self.key_proj",
        "value": "attention.self.value_proj",
    },
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings"},
    after_first_block="encoder.conv",
    disentangled=True,
    from_lengths=(("encoder", "get_rel_pos"),),
)

MODERNBERT = Anatomy(
    blocks="layers",
    in_block={
        "query": ("attn.Wqkv", 0, 3),
        "key": ("attn.Wqkv", 1, 3),
        "value": ("attn.Wqkv", 2, 3),
        "scores": "attn",
        "attention_out": "attn.Wo",
        "attention_delta": "attn.out_drop",
        "norm_1": "attn_norm",
        "ffn_in": "mlp.Wi",
        "ffn_out": "mlp.Wo",
        "ffn_delta": "mlp",
        "norm_2": "mlp_norm",
    },
    outside={"embeddings_norm": "embeddings.norm", "embeddings": "embeddings", "final_norm": "final_norm"},
    pre_norm=True,
    bias_flags={
        "attention_bias": ("query", "attention_out"),
        "mlp_bias": ("ffn_in", "ffn_out"),
        "norm_bias": ("norm_1", "norm_2", "embeddings_norm", "final_norm"),
    },
)

FAMILIES: dict[str, Anatomy] = {
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "camembert": BERT,
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
    "mpnet": MPNET,
    "deberta-v2": DEBERTA_V2,
    "modernbert": MODERNBERT,
}
"""By the `model_type` of the family's configuration."""


def register_family(model_type: str, anatomy: Anatomy | str) -> None:
    """Teach weft a family: its own table, or the name of a family built in the same way."""
    if model_type in FAMILIES:
        raise WeftError(f"encoder family {model_type!r} has an anatomy already")
    if isinstance(anatomy, str) and anatomy not in FAMILIES:
        raise WeftError(f"encoder family {anatomy!r} is unknown; {did_you_mean(anatomy, FAMILIES)}")
    FAMILIES[model_type] = FAMILIES[anatomy] if isinstance(anatomy, str) else anatomy


def find(root: nn.Module, path: str) -> tuple[str, nn.Module] | None:
    """The first alternative of `path` that exists under `root`, and its module."""
    for option in path.split("|"):
        try:
            module = root.get_submodule(option)
        except AttributeError:
            continue
        return option, module
    return None


def anatomy_of(model: Any) -> Anatomy:
    """The table of the model's family; an unknown family is answered by what is missing."""
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", None)
    if family is None:
        raise WeftError(f"expected a Hugging Face encoder; found {type(model).__name__} without a config")
    inner = getattr(model, "base_model", model)
    if inner is not model and family in FAMILIES:
        prefix = getattr(model, "base_model_prefix", "base_model")
        raise WeftError(f"{type(model).__name__} is an encoder with a head; pass the encoder: model.{prefix}")
    if family not in FAMILIES:
        raise WeftError(_unknown(model, str(family)))
    for key, name in (("chunk_size_feed_forward", "feed-forward in chunks"), ("is_decoder", "a decoder")):
        if getattr(config, key, False):
            raise WeftError(f"the encoder's configuration asks for {name} ({key}); set it to 0 or false")
    return FAMILIES[family]


def sites_of(model: Any) -> Sites:
    """All sites of a Hugging Face encoder."""
    anatomy = anatomy_of(model)
    config = model.config
    family: str = config.model_type
    width: int = config.hidden_size
    blocks = _blocks(model, anatomy)
    lacking = {kind: f"family {family!r} has none" for kind in KINDS if kind not in anatomy.in_block}
    if anatomy.disentangled and not getattr(config, "relative_attention", False):
        lacking["scores"] = "without relative_attention its scores take no further term"
    sites = [Site("top", None, width, width, "")]
    for kind, place in anatomy.outside.items():
        sites += _site(model, "", kind, place, None, width, lacking)
    for number, block in enumerate(blocks):
        prefix = f"{anatomy.blocks}.{number}"
        sites.append(Site("block", number, width, width, prefix))
        for kind, place in anatomy.in_block.items():
            if kind != "scores" or "scores" not in lacking:
                sites += _site(block, prefix, kind, place, number, width, lacking)
    heads: int = config.num_attention_heads
    # of the blocks' last norm: the first may be an identity
    norms = [site.path for site in sites if site.kind in BLOCK_NORM]
    eps: float = model.get_submodule(norms[-1]).eps if norms else 1e-12
    return Sites(family, width, len(blocks), sites, lacking, anatomy.pre_norm, heads, eps)


def _blocks(model: nn.Module, anatomy: Anatomy) -> nn.ModuleList:
    found = find(model, anatomy.blocks)
    if found is None or not isinstance(found[1], nn.ModuleList):
        raise WeftError(f"{type(model).__name__} has no list of blocks at {anatomy.blocks!r}")
    return found[1]


def _site(
    root: nn.Module,
    prefix: str,
    kind: str,
    place: Place,
    layer: int | None,
    width: int,
    lacking: dict[str, str],
) -> list[Site]:
    """The site of this kind, or none where the module is missing or is no map or norm."""
    path, index, parts = (place, 0, 1) if isinstance(place, str) else place
    found = find(root, path)
    if found is None:
        if kind in OUTSIDE:
            lacking[kind] = f"there is no module {path!r}"
            return []
        raise WeftError(f"layer {layer} has no module {path!r}, where its anatomy puts the site {kind!r}")
    option, module = found
    full = f"{prefix}.{option}" if prefix else option
    if kind in LINEAR:
        if not isinstance(module, nn.Linear):
            raise WeftError(f"{full} should be a linear map for site {kind!r}; it is {type(module).__name__}")
        return [Site(kind, layer, module.in_features, module.out_features // parts, full, (index, parts))]
    if kind in NORM:
        if not isinstance(module, nn.LayerNorm):
            lacking[kind] = f"{full} is {type(module).__name__}, not a layer norm"
            return []
        normed = module.normalized_shape[0]
        return [Site(kind, layer, normed, normed, full)]
    return [Site(kind, layer, width, width, full)]


def _unknown(model: nn.Module, family: str) -> str:
    """Say how near the known tables come to an unknown family, and how to add it."""
    lines = [f"encoder family {family!r} ({type(model).__name__}) has no anatomy, so its sites are unknown."]
    nearest: tuple[int, str, list[str]] | None = None
    for name, anatomy in FAMILIES.items():
        found = find(model, anatomy.blocks)
        if found is None or not isinstance(found[1], nn.ModuleList) or not len(found[1]):
            continue
        missing = [
            kind
            for kind, place in anatomy.in_block.items()
            if find(found[1][0], place if isinstance(place, str) else place[0]) is None
        ]
        if nearest is None or len(missing) < nearest[0]:
            nearest = (len(missing), name, missing)
    if nearest is None:
        known = ", ".join(sorted({a.blocks for a in FAMILIES.values()}))
        lines.append(f"It has no list of blocks at any of: {known}.")
        lines.append(f"A table must say where the blocks are and, inside one, {', '.join(BLOCK_LINEAR)}, ….")
    elif nearest[0]:
        lines.append(f"It is nearest to {nearest[1]!r}, but for: {', '.join(nearest[2])}.")
    else:
        lines.append(
            f"Every place of {nearest[1]!r} exists in it; if it computes in the same order, add it by"
        )
        lines.append(f"  weft.encoder.register_family({family!r}, {nearest[1]!r})")
    lines.append(
        f"Known families: {', '.join(sorted(FAMILIES))}. To add one: 'An encoder family' in CONTRIBUTING."
    )
    return "\n".join(lines)
