"""The one table: every method that the conformance suite runs on every family.

A new method joins by one line here.
"""

METHODS: dict[str, object] = {
    "full": "full",
    "frozen": "frozen",
    "separate": "separate",
    "lora": {"use": "lora", "rank": 3, "alpha": 6},
    "lora-all": {"use": "lora", "rank": 3, "share": "all"},
    "lora-groups": {"use": "lora", "rank": 2, "share": {"first": ["a", "c"], "second": ["b"]}},
    "lora-everywhere": {
        "use": "lora",
        "rank": 2,
        "sites": "query, key, value, attention_out, ffn_in, ffn_out",
        "layers": "1",
    },
    "bitfit": "bitfit",
    "pals": {"use": "pals", "d_s": 12},
    "pals-zero": {"use": "pals", "d_s": 12, "heads": 3, "zero_init": True, "share": "none"},
    "pals-serial": {"use": "pals", "d_s": 12, "connection": "serial", "share": "both"},
    "pals-ffn": {"use": "pals", "d_s": 12, "inside": "ffn", "inner": 18, "share": "tasks"},
    "pals-frozen": {"use": "pals", "d_s": 6, "layers": "top half", "train_encoder": "none"},
    "pals_lhuc": {"use": "pals_lhuc", "d_s": 12},
    "low_rank": {"use": "low_rank", "d_s": 5},
    "low_rank-zero": {"use": "low_rank", "d_s": 5, "activation": "identity", "lhuc": True, "zero_init": True},
    "low_rank-serial": {"use": "low_rank", "d_s": 5, "connection": "serial", "share": "layers"},
    "pals above, low rank below": [
        {"use": "pals", "d_s": 6, "layers": "1"},
        {"use": "low_rank", "d_s": 5, "layers": "0"},
    ],
    "houlsby": {"use": "houlsby", "size": 5},
    "houlsby-zero": {"use": "houlsby", "size": 5, "norms": "blocks", "activation": "relu", "zero_init": True},
    "houlsby_parallel": {"use": "houlsby_parallel", "d_s": 5},
    "houlsby_pals": {"use": "houlsby_pals", "d_s": 12, "attention_d_s": 5},
    "top_attention": {"use": "top_attention", "d_s": 12, "depth": 3},
    "top_attention-bare": {
        "use": "top_attention",
        "d_s": 12,
        "depth": 2,
        "heads": 4,
        "residual": False,
        "norm": False,
    },
    "top_ffn": {"use": "top_ffn", "d_s": 12, "depth": 2, "inner": 20},
    "top_ffn-two": {"use": "top_ffn", "d_s": 12, "depth": 1, "hidden_layers": 2, "inner": 14},
    "top_layer": "top_layer",
    "lhuc": "lhuc",
    "task_norm": "task_norm",
    "lora+bitfit": ["lora", {"use": "bitfit", "share": "all", "train_encoder": "layers 1"}],
}
