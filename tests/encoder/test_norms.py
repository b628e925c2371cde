"""Norms of torch and of transformers, by one definition."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.models.deberta.modeling_deberta import DebertaLayerNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from tests.support.tiny import CORE_FAMILIES, FAMILIES, tiny
from weft.encoder.anatomy import sites_of
from weft.encoder.norms import is_norm, norm_eps, norm_width, normalized
from weft.encoder.sites import NORM

NORMS = {
    "torch's layer norm": lambda: nn.LayerNorm(8, eps=0.1),
    "without a bias": lambda: nn.LayerNorm(8, eps=0.1, bias=False),
    "torch's RMS norm": lambda: nn.RMSNorm(8, eps=0.1),
    "DeBERTa's layer norm": lambda: DebertaLayerNorm(8, 0.1),
    "Llama's RMS norm": lambda: LlamaRMSNorm(8, 0.1),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_its_weight_and_bias_on_the_normalized_input(name):
    torch.manual_seed(3)
    norm = NORMS[name]()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(3, 5, 8) + 2
    bias = dict(norm.named_parameters()).get("bias", 0.0)
    torch.testing.assert_close(norm(x), norm.weight * normalized(x, norm) + bias)
    assert is_norm(norm)
    assert (norm_width(norm), norm_eps(norm)) == (8, 0.1)


def test_the_default_of_torchs_rms_norm():
    norm = nn.RMSNorm(8)
    x = torch.randn(2, 8) * 1e-3
    torch.testing.assert_close(norm(x), normalized(x, norm))


@pytest.mark.parametrize("module", [nn.Identity(), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Embedding(4, 4)])
def test_what_is_no_norm(module):
    assert not is_norm(module)


@pytest.mark.parametrize("family", [*FAMILIES, *CORE_FAMILIES])
def test_every_norm_of_an_encoder_is_recognized(family):
    """So that it trains as a norm, and starts again as one."""
    encoder = tiny(family)
    found = {name for name, module in encoder.named_modules() if is_norm(module)}
    assert found >= {site.path for site in sites_of(encoder) if site.kind in NORM}
    assert found == {
        name for name, module in encoder.named_modules() if type(module).__name__.endswith("Norm")
    }
