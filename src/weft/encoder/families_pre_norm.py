"""Tables of further families whose norms precede their sub-layers; see `families.py`."""

from __future__ import annotations

from dataclasses import replace

from weft.encoder.families import BERT, ROBERTA, ConfigLimits

MEGATRON_BERT = replace(
    BERT,
    in_block={**BERT.in_block, "norm_1": "attention.ln", "norm_2": "ln"},
    outside={"embeddings": "embeddings", "final_norm": "encoder.ln", "pooler": "pooler.dense"},
    pre_norm=True,
    limits=ConfigLimits(layers=("num_hidden_layers", 24)),
)

ROBERTA_PRELAYERNORM = replace(
    ROBERTA,
    in_block={**BERT.in_block, "norm_1": "attention.LayerNorm", "norm_2": "intermediate.LayerNorm"},
    outside={**BERT.outside, "final_norm": "LayerNorm"},
    pre_norm=True,
)

XLM_ROBERTA_XL = replace(
    ROBERTA,
    in_block={
        **BERT.in_block,
        "norm_1": "attention.self_attn_layer_norm",
        "ffn_delta": "output.dense",  # there is no dropout between the map and the residual
        "norm_2": "LayerNorm",
    },
    outside={"embeddings": "embeddings", "final_norm": "encoder.LayerNorm", "pooler": "pooler.dense"},
    pre_norm=True,
    limits=ConfigLimits(
        layers=("num_hidden_layers", 36), positions=("max_position_embeddings", 514), padding=1
    ),
)

ESM = replace(
    ROBERTA,
    in_block={**BERT.in_block, "norm_1": "attention.LayerNorm", "norm_2": "LayerNorm"},
    outside={
        "embeddings_norm": "embeddings.layer_norm",  # ESM-2 has none
        "embeddings": "embeddings",
        "final_norm": "encoder.emb_layer_norm_after",
        "pooler": "pooler.dense",
    },
    pre_norm=True,
    limits=ConfigLimits(
        positions=("max_position_embeddings", 1026),
        padding=1,
        only_if=("position_embedding_type", "absolute"),
        only_if_is="absolute",
    ),
    constant=("contact_head",),  # it reads attention maps, which a forward pass does not keep
)
