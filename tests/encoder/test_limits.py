"""What config.json says of an encoder equals what the encoder is, without torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from transformers import AutoConfig, AutoModel

from tests.support.tiny import CONFIGS, CORE_CONFIGS, CORE_FAMILIES, FAMILIES, INSTALLED, tiny
from weft.encoder.anatomy import longest_row, sites_of
from weft.encoder.catalogue import ARCHITECTURES
from weft.encoder.families import FAMILIES as KNOWN
from weft.encoder.families import register_family
from weft.encoder.limits import encoder_limits, limits_of_config


@pytest.mark.parametrize("family", [*FAMILIES, *CORE_FAMILIES])
def test_a_saved_encoder(family, tmp_path):
    encoder = tiny(family)
    encoder.config.save_pretrained(tmp_path)
    limits = encoder_limits(str(tmp_path))
    assert limits == (sites_of(encoder).num_layers, longest_row(encoder))


DEFAULTS = {CONFIGS[family][0] for family in FAMILIES} | {CORE_CONFIGS[family][0] for family in CORE_FAMILIES}
DEFAULTS -= {"esm"}  # its configuration has no default size of the vocabulary
NEEDED = {"deberta": {"relative_attention": True}}


@pytest.mark.parametrize("family", sorted(DEFAULTS))
def test_a_configuration_that_leaves_out_what_is_default(family):
    import torch

    with torch.device("meta"):
        encoder = AutoModel.from_config(AutoConfig.for_model(family, **NEEDED.get(family, {})))
    assert limits_of_config({"model_type": family}) == (sites_of(encoder).num_layers, longest_row(encoder))


@pytest.mark.parametrize("name", INSTALLED)
def test_random_architectures(name):
    import torch

    model_type, settings = ARCHITECTURES[name]
    with torch.device("meta"):
        encoder = AutoModel.from_config(AutoConfig.for_model(model_type, **settings))
    assert encoder_limits(f"random:{name}") == (sites_of(encoder).num_layers, longest_row(encoder))


def test_the_built_in_encoder_and_what_is_unknown(tmp_path, monkeypatch):
    assert encoder_limits("minilm") == (6, 512)
    assert str(encoder_limits("minilm")) == "6 layers (0-5), rows of at most 512 tokens"
    assert encoder_limits("random:modernbert-base").longest_row is None
    assert "of any length" in str(encoder_limits("random:modernbert-base"))
    assert encoder_limits("random:nothing") is None
    assert encoder_limits("no/such-model") is None
    assert encoder_limits("not an id!") is None
    assert encoder_limits(str(tmp_path)) is None
    wrong = {"model_type": "bert", "num_hidden_layers": "x"}
    for text in ("{", "[1]", json.dumps({"model_type": "gpt2"}), json.dumps(wrong)):
        (tmp_path / "config.json").write_text(text)
        assert encoder_limits(str(tmp_path)) is None
    # equal modules may be configured differently
    monkeypatch.setattr(KNOWN, "_entries", dict(KNOWN._entries))
    register_family("splinter", "bert")
    assert limits_of_config({"model_type": "splinter", "num_hidden_layers": 3}) is None


def test_no_torch():
    code = (
        "import sys; from weft.encoder.limits import encoder_limits; encoder_limits('minilm'); "
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
