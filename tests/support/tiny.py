"""Tiny random encoders of every family, and batches for them: logic is tested on these."""

from __future__ import annotations

import copy
from functools import cache

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

import weft
from weft.encoder.catalogue import ARCHITECTURES
from weft.encoder.norms import is_norm

_SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
}
_DEBERTA = {
    "relative_attention": True,
    "position_buckets": 8,
    "pos_att_type": ["p2c", "c2p"],
    "pad_token_id": 0,
}
_ROBERTA = {"type_vocab_size": 1, "pad_token_id": 1}
_MODERN = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "pad_token_id": 0}

CONFIGS: dict[str, tuple[str, dict]] = {
    "bert": ("bert", _SIZES),
    "roberta": ("roberta", _SIZES | _ROBERTA),
    "xlm-roberta": ("xlm-roberta", _SIZES | _ROBERTA),
    "camembert": ("camembert", _SIZES | _ROBERTA),
    "electra": ("electra", _SIZES | {"embedding_size": 16}),
    "distilbert": (
        "distilbert",
        {
            "vocab_size": 99,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 40,
            "max_position_embeddings": 64,
            "pad_token_id": 0,
        },
    ),
    "mpnet": ("mpnet", _SIZES | {"pad_token_id": 1}),
    "deberta-v3": (
        "deberta-v2",
        _SIZES
        | _DEBERTA
        | {
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "position_biased_input": False,
            "type_vocab_size": 0,
        },
    ),
    # as deberta-v2-xlarge: a convolution after block 0; and position maps of their own
    "deberta-v2": ("deberta-v2", _SIZES | _DEBERTA | {"share_att_key": False, "conv_kernel_size": 3}),
    "modernbert": (
        "modernbert",
        _SIZES | _MODERN | {"num_hidden_layers": 3, "global_attn_every_n_layers": 2, "local_attention": 8},
    ),
}
FAMILIES = list(CONFIGS)
"""The encoders that the whole conformance table runs on."""

_ROTARY = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

CORE_CONFIGS: dict[str, tuple[str, dict]] = {
    "ernie": ("ernie", _SIZES | {"use_task_id": True}),
    "data2vec-text": ("data2vec-text", _SIZES | _ROBERTA),
    "rembert": ("rembert", _SIZES | {"input_embedding_size": 16, "output_embedding_size": 24}),
    "roformer": ("roformer", _SIZES | {"embedding_size": 16}),
    "deberta": (
        "deberta",
        _SIZES
        | _DEBERTA
        | {"position_biased_input": False, "type_vocab_size": 0, "max_relative_positions": 7},
    ),
    # two blocks that run twice each
    "albert": ("albert", _SIZES | {"embedding_size": 16, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    "megatron-bert": ("megatron-bert", _SIZES),
    "roberta-prelayernorm": ("roberta-prelayernorm", _SIZES | _ROBERTA),
    "xlm-roberta-xl": ("xlm-roberta-xl", _SIZES | _ROBERTA),
    "esm": (
        "esm",
        _SIZES
        | {"pad_token_id": 1, "mask_token_id": 4, "position_embedding_type": "rotary", "token_dropout": True},
    ),
    "nomic_bert": ("nomic_bert", _SIZES | {"pad_token_id": 0}),
    "gte": ("gte", _SIZES | _ROBERTA),
    "jina_embeddings_v3": ("jina_embeddings_v3", _SIZES | _ROBERTA),
    # queries have twice as many heads as keys and values
    "eurobert": ("eurobert", _SIZES | _ROTARY | {"num_key_value_heads": 2, "mask_token_id": 4}),
    "ultrabert": (
        "ultrabert",
        _SIZES | _ROTARY | {"num_hidden_layers": 3, "num_key_value_heads": 2, "sliding_window": 4},
    ),
}
CORE_FAMILIES = [family for family, (model_type, _) in CORE_CONFIGS.items() if model_type in CONFIG_MAPPING]
"""Further encoders, which the core of the conformance table runs on; those that this transformers has."""

INSTALLED = [name for name, (model_type, _) in ARCHITECTURES.items() if model_type in CONFIG_MAPPING]
"""The names of `random:` encoders whose family this transformers has."""

TASKS = (
    weft.Task("a", labels=("no", "yes")),
    weft.Task("b", labels=("x", "y", "z")),
    weft.Task("c", "regress"),
    weft.Task("d", labels=("off", "on")),
)


@cache
def _built(family: str, attention: str | None, layers: int | None) -> nn.Module:
    model_type, settings = (CONFIGS | CORE_CONFIGS)[family]
    if layers is not None and "num_hidden_groups" in settings:
        settings = settings | {"num_hidden_groups": layers, "num_hidden_layers": 2 * layers}
    elif layers is not None:
        settings = settings | {"n_layers" if "n_layers" in settings else "num_hidden_layers": layers}
    kind = {} if attention is None else {"attn_implementation": attention}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = AutoModel.from_config(AutoConfig.for_model(model_type, **settings), **kind).eval()
        for module in model.modules():
            # far from the usual start: a wrong place, mask or scale must show
            for name, parameter in module.named_parameters(recurse=False):
                with torch.no_grad():
                    if is_norm(module) and name == "weight":
                        parameter.normal_(1.0, 0.2)
                    else:
                        parameter.normal_(0.0, 0.25)
    return model


def tiny(family: str, attention: str | None = None, layers: int | None = None) -> nn.Module:
    """A fresh bare encoder, the same weights each time."""
    return copy.deepcopy(_built(family, attention, layers))


def build(family: str, method: object, tasks=TASKS, layers: int | None = None, **settings) -> weft.Model:
    """A model on a tiny encoder, in eval mode."""
    return weft.Model(tiny(family, layers=layers), tasks, method, **settings).eval()


@torch.no_grad()
def scramble(model: weft.Model, seed: int = 1) -> weft.Model:
    """Move every adapter and head away from its start, and the bodies of `separate` apart."""
    generator = torch.Generator().manual_seed(seed)
    moved = [*model.adapters.parameters(), *model.heads.parameters()]
    if model.method.separate:
        moved += model.encoder.parameters()
    for parameter in moved:
        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model


def no_dropout(model: nn.Module) -> nn.Module:
    """Train mode with every dropout at zero."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def batch(model: weft.Model, rows: int = 8, length: int = 12, seed: int = 3) -> dict[str, Tensor]:
    """Padded rows of mixed tasks, the first of them unpadded."""
    encoder = next(iter(model.encoder.values())) if model.method.separate else model.encoder
    pad = encoder.config.pad_token_id or 0
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 99, (rows, length), generator=generator)
    lengths = torch.randint(3, length + 1, (rows,), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length) < lengths[:, None]).long()
    task = torch.randint(0, len(model.tasks), (rows,), generator=generator)
    task[: len(model.tasks)] = torch.randperm(len(model.tasks), generator=generator)[:rows]
    return {"input_ids": ids.where(mask.bool(), pad), "attention_mask": mask, "task": task}


def labels(model: weft.Model, task: Tensor) -> dict[str, Tensor]:
    """Labels for the examples of these tasks."""
    values = [
        (3 * e + 1) % (model.tasks[t].size or 1) if model.tasks[t].labels else 0.7 * e
        for e, t in enumerate(task.tolist())
    ]
    return model.collate_labels(values, task)
