"""The relative terms of DeBERTa's first version are Hugging Face's, bit by bit."""

from __future__ import annotations

import pytest
import torch

from tests.support.tiny import CORE_CONFIGS
from weft.core.route import RouteHolder
from weft.encoder.deberta import FirstRelativeTerms


@pytest.mark.parametrize("types", [["c2p"], ["p2c"], ["c2p", "p2c"]])
@pytest.mark.parametrize("most", [-1, 3, 7, 50])
def test_the_first_version(types, most):
    from transformers import AutoConfig, AutoModel

    model_type, settings = CORE_CONFIGS["deberta"]
    changed = settings | {"pos_att_type": types, "max_relative_positions": most, "num_hidden_layers": 1}
    torch.manual_seed(4)
    encoder = AutoModel.from_config(AutoConfig.for_model(model_type, **changed)).eval()
    attention = encoder.encoder.layer[0].attention.self
    query, key = torch.randn(2, 3, 4, 9, 8)
    relative = encoder.encoder.get_rel_pos(torch.zeros(3, 9, 32))
    table = encoder.encoder.get_rel_embedding()
    arguments = (query, key, relative, table, 1 + len(types))
    with torch.no_grad():
        expected = attention.disentangled_att_bias(*arguments)
        assert torch.equal(FirstRelativeTerms(attention, [], RouteHolder())(*arguments), expected)
