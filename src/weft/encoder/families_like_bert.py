"""Tables of further families whose norms follow the residual, as BERT's do; see `families.py`."""

from __future__ import annotations

from dataclasses import replace

from weft.encoder.families import BERT, ROBERTA, Anatomy, Classifier, ConfigLimits

ERNIE = BERT

DATA2VEC_TEXT = ROBERTA

REMBERT = replace(
    BERT,
    # the embeddings are narrower than the blocks; the map between them always exists
    outside={**BERT.outside, "embeddings": "encoder.embedding_hidden_mapping_in"},
    limits=ConfigLimits(layers=("num_hidden_layers", 32)),
)

ROFORMER = replace(
    BERT,
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings_project|embeddings"},
    positions="encoder.embed_positions",
    classifier=None,
    limits=ConfigLimits(positions=("max_position_embeddings", 1536)),
    constant=("encoder.embed_positions",),  # sines and cosines, which rotate queries and keys
)

DEBERTA = replace(
    BERT,
    in_block={
        **BERT.in_block,
        "query": ("attention.self.in_proj", 0, 3),
        "key": ("attention.self.in_proj", 1, 3),
        "value": ("attention.self.in_proj", 2, 3),
    },
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings"},
    disentangled=True,
    parts_by_head=True,
    classifier=None,
    limits=ConfigLimits(only_if=("position_biased_input", True)),
    only={"relative_attention": True, "talking_head": False},
)

ALBERT = Anatomy(
    # blocks are groups of layers that share their weights: all released encoders have one
    blocks="encoder.albert_layer_groups",
    in_block={
        "query": "albert_layers.0.attention.query",
        "key": "albert_layers.0.attention.key",
        "value": "albert_layers.0.attention.value",
        "scores": "albert_layers.0.attention",
        "attention_out": "albert_layers.0.attention.dense",
        "attention_delta": "albert_layers.0.attention.output_dropout",
        "norm_1": "albert_layers.0.attention.LayerNorm",
        "ffn_in": "albert_layers.0.ffn",
        "ffn_out": "albert_layers.0.ffn_output",
        "ffn_delta": "albert_layers.0.ffn_output",  # there is no dropout between the map and the residual
        "norm_2": "albert_layers.0.full_layer_layer_norm",
    },
    outside={
        "embeddings_norm": "embeddings.LayerNorm",
        "embeddings": "encoder.embedding_hidden_mapping_in",
        "pooler": "pooler",
    },
    classifier=Classifier(""),
    limits=ConfigLimits(layers=("num_hidden_groups", 1)),
    repeats=True,
    only={"inner_group_num": 1},
)
