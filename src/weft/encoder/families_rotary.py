"""Tables of further families with rotary positions and maps of their own for a gate; see `families.py`."""

from __future__ import annotations

from dataclasses import replace

from weft.encoder.families import Anatomy, Classifier, ConfigLimits

NOMIC_BERT = Anatomy(
    blocks="layers",
    in_block={
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "scores": "self_attn",
        "attention_out": "self_attn.o_proj",
        "attention_delta": "post_attention_dropout",
        "norm_1": "post_attention_layernorm",
        "ffn_in": "mlp.up_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_out": "mlp.down_proj",
        "ffn_delta": "post_mlp_dropout",
        "norm_2": "post_mlp_layernorm",
    },
    outside={
        "embeddings_norm": "embeddings.LayerNorm",
        "embeddings": "embeddings",
        "pooler": "pooler.dense",  # of encoders that are made with one; AutoModel makes none
    },
    limits=ConfigLimits(positions=None),
    since="5.5",
    foreign={
        "n_embd": "download the files that were converted for transformers: hf download "
        "nomic-ai/nomic-embed-text-v1.5 --revision refs/pr/57 --local-dir FOLDER"
    },
)

GTE = replace(NOMIC_BERT, since="5.18", foreign={})

JINA_EMBEDDINGS_V3 = replace(
    NOMIC_BERT,
    in_block={
        **{kind: place for kind, place in NOMIC_BERT.in_block.items() if kind != "ffn_gate"},
        "ffn_in": "mlp.fc1",
        "ffn_out": "mlp.fc2",
    },
    classifier=Classifier("out_proj.", "dense."),
    limits=ConfigLimits(layers=("num_hidden_layers", 24), positions=None),
    since="5.4",
    foreign={},
)

EUROBERT = Anatomy(
    blocks="layers",
    in_block={
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "scores": "self_attn",
        "attention_out": "self_attn.o_proj",
        "attention_delta": "self_attn",
        "norm_1": "input_layernorm",
        "ffn_in": "mlp.up_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_out": "mlp.down_proj",
        "ffn_delta": "mlp",
        "norm_2": "post_attention_layernorm",
    },
    outside={"embeddings": "embed_tokens", "final_norm": "norm"},
    pre_norm=True,
    bias_flags={
        "attention_bias": ("query", "key", "value", "attention_out"),
        "mlp_bias": ("ffn_in", "ffn_gate", "ffn_out"),
    },
    limits=ConfigLimits(positions=None),
    since="5.3",
)

ULTRABERT = replace(
    EUROBERT, limits=ConfigLimits(layers=("num_hidden_layers", 32), positions=None), since="5.20"
)
