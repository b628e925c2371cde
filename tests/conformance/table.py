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
    "lora+bitfit": ["lora", {"use": "bitfit", "share": "all", "train_encoder": "layers 1"}],
}
