"""What weft relies on inside single families of transformers; see tests/support/internals.py."""

from __future__ import annotations

import torch
from torch import nn

from tests.support.internals import Internal, attention_of, blocks_of, encoder_of, parameters_of


def deberta() -> list[Internal]:
    """The attributes of DeBERTa's attention that its relative terms are computed from."""
    common = ("pos_att_type", "num_attention_heads")
    names = {
        "deberta-v2": (*common, "pos_ebd_size", "share_att_key", "query_proj", "key_proj"),
        "deberta": (*common, "max_relative_positions", "in_proj", "pos_proj", "pos_q_proj"),
    }
    methods = {"deberta-v2": "disentangled_attention_bias", "deberta": "disentangled_att_bias"}
    expected = [
        Internal(
            f"{family}: an attribute {name} of the attention",
            "encoder/deberta.py",
            lambda family=family, name=name: hasattr(attention_of(family), name),
        )
        for family, attributes in names.items()
        for name in attributes
    ]
    return expected + [
        Internal(
            f"{family}: {method}(query, key, relative positions, embeddings, scale)",
            "encoder/deberta.py",
            lambda family=family, method=method: (
                len(parameters_of(getattr(attention_of(family), method))) == 5
            ),
        )
        for family, method in methods.items()
    ]


def albert() -> list[Internal]:
    """ALBERT's pooler, and how often its blocks run."""

    def runs() -> bool:
        encoder, ran = encoder_of("albert"), []
        hooks = [block.register_forward_hook(lambda m, i, o: ran.append(m)) for block in blocks_of("albert")]
        with torch.no_grad():
            encoder(torch.full((1, 3), 7))
        for hook in hooks:
            hook.remove()
        return ran == [blocks_of("albert")[0]] * 2 + [blocks_of("albert")[1]] * 2

    return [
        Internal(
            "albert: a linear map pooler and a pooler_activation",
            "encoder/body.py",
            lambda: (
                isinstance(encoder_of("albert").pooler, nn.Linear) and encoder_of("albert").pooler_activation
            ),
        ),
        Internal("albert: the runs of a group of layers follow each other", "encoder/woven_block.py", runs),
    ]
