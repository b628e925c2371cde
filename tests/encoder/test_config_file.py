"""The config.json of an encoder of any origin."""

from __future__ import annotations

import json

import pytest

from tests.support.tiny import tiny
from weft.encoder.config_file import check_tokenizer_config, read_encoder_config
from weft.errors import WeftError

PLAIN = {"model_type": "bert", "hidden_size": 32, "layers": [1, 2], "id2label": {"0": "x"}}

REFUSED = {
    "no family": (
        {"model_type": None},
        "model_type: found nothing; expected the family of an encoder: .*bert",
    ),
    "a number as family": ({"model_type": 3}, "model_type: found 3"),
    "an unknown family": ({"model_type": "brt"}, "family 'brt' has no anatomy.*did you mean 'bert'"),
    "a family of its own": (
        {"model_type": "evil", "auto_map": {"AutoModel": "evil.Evil"}},
        r"own code \(auto_map\), which weft does not run",
    ),
    "a kernel of the hub": ({"attn_implementation": "org/kernel"}, "attn_implementation: found 'org/kernel'"),
    "a private kernel": ({"_attn_implementation": "org/kernel:f"}, "found 'org/kernel:f'; expected eager"),
    "a kernel in a list": ({"attn_implementation": ["x"]}, "attn_implementation: found"),
    "flash attention": ({"attn_implementation": "flash_attention_2"}, "found 'flash_attention_2'"),
    "quantized": ({"quantization_config": {"load_in_4bit": True}}, "quantization_config is set"),
    "layers that differ": ({"per_layer_config": {"0": {}}}, "per_layer_config is set"),
    "many labels": (
        {"num_labels": 10**9},
        "num_labels: found 1000000000; expected a number of at most 100,000",
    ),
    "many positions": ({"max_position_embeddings": 10**8}, "max_position_embeddings: found 100000000"),
    "a huge width": ({"hidden_size": 2**31}, "hidden_size: found 2147483648"),
    "a huge number inside": ({"rope": {"x": [1, {"y": -(2**40)}]}}, "rope.x.y: found -1099511627776"),
    "thousands of digits": ({"hidden_size": 10**4000}, "hidden_size: found 1000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_configurations_that_are_refused(tmp_path, case):
    change, words = REFUSED[case]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**PLAIN, **change}))
    with pytest.raises(WeftError, match=words) as wrong:
        read_encoder_config(path, "x")
    assert str(wrong.value).startswith(str(path))
    assert len(str(wrong.value)) < 700


def test_keys_that_would_load_code_are_left_out(tmp_path):
    path = tmp_path / "config.json"
    further = {
        "auto_map": {"AutoConfig": "evil.Evil"},
        "attn_implementation": "eager",
        "transformers_weights": "../secret.safetensors",
        "configuration_files": ["config.9.0.0.json"],
        "fusion_config": {"x": 1},
        "_name_or_path": "elsewhere",
        "_commit_hash": "1",
    }
    path.write_text(json.dumps({**PLAIN, **further}))
    config = read_encoder_config(path, "x")
    assert config.settings == PLAIN
    assert config.model_type == "bert"
    assert len(config.notes) == 1
    assert "names Python code that comes with encoder 'x' (auto_map); weft does not run it" in config.notes[0]


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v3"])
def test_what_transformers_saves_passes_whole(tmp_path, family):
    tiny(family).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    config = read_encoder_config(tmp_path / "config.json", "x")
    assert config.settings == {key: value for key, value in saved.items() if not key.startswith("_")}
    assert config.notes == ()


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 10_000, '{"model_type": "\\ud800"}', "\xff"])
def test_files_that_are_no_configuration(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(WeftError, match=r"config\.json"):
        read_encoder_config(path, "x")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gguf_file": "../x.gguf"}, "gguf_file is set"),
        ({"tokenizer_object": {}}, "tokenizer_object is set"),
        (
            {"fast_tokenizer_files": ["../tokenizer.1.json"]},
            "fast_tokenizer_files: found '../tokenizer.1.json'",
        ),
        ({"fast_tokenizer_files": "/etc/passwd"}, "expected names of files"),
        ({"fast_tokenizer_files": [3]}, "expected names of files"),
    ],
)
def test_tokenizers_that_lead_outside(tmp_path, change, words):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(change))
    with pytest.raises(WeftError, match=words):
        check_tokenizer_config(path)


def test_a_plain_tokenizer(tmp_path):
    path = tmp_path / "tokenizer_config.json"
    old = {"special_tokens_map_file": "/root/.cache/x", "model_max_length": 10**30, "gguf_file": None}
    path.write_text(json.dumps({**old, "fast_tokenizer_files": ["tokenizer.4.0.json"]}))
    check_tokenizer_config(path)
