"""What Bert-n-Pals computes, written down once more as plain functions over a state dict.

Parameters are drawn when they are first read, under the authors' names: running it once for every task gives
both the outputs and a state dict with just the keys that their modules have.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F


class Drawn:
    """A state dict that grows by what is read of it."""

    def __init__(self, seed: int = 0) -> None:
        self.state: dict[str, torch.Tensor] = {}
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, name: str, *shape: int, mean: float = 0.0) -> torch.Tensor:
        if name not in self.state:
            self.state[name] = mean + 0.25 * torch.randn(*shape, generator=self.generator)
        return self.state[name]

    def linear(self, name, x, out):
        return F.linear(x, self(f"{name}.weight", out, x.size(-1)), self(f"{name}.bias", out))

    def norm(self, name, x):
        width = x.size(-1)
        return F.layer_norm(
            x, (width,), self(f"{name}.gamma", width, mean=1.0), self(f"{name}.beta", width), 1e-12
        )

    def alias(self, name, other):
        for part in ("weight", "bias"):
            if f"{other}.{part}" in self.state:
                self.state[f"{name}.{part}"] = self.state[f"{other}.{part}"]


def attention(p, name, x, mask, heads):
    width = x.size(-1)
    query, key, value = (
        p.linear(f"{name}.{part}", x, width).unflatten(-1, (heads, -1)).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(-1, -2) / math.sqrt(width // heads) + (1 - mask[:, None, None]) * -10000.0
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


def low_rank(p, config, name, x):
    small = F.gelu(p.linear(f"{name}.aug_dense", x, config["extra_dim"] or config["hidden_size_aug"]))
    return p.linear(f"{name}.aug_dense2", small, x.size(-1))


def pal(p, config, name, x, mask, task):
    for part in ("aug_dense", "aug_dense2"):
        p.alias(f"{name}.{part}", f"bert.encoder.mult_{part}.{task}")
    small = p.linear(f"{name}.aug_dense", x, config["hidden_size_aug"])
    small = attention(p, f"{name}.attn", small, mask, 6)
    wide = F.gelu(p.linear(f"{name}.aug_dense2", small, x.size(-1)))
    for part in ("aug_dense", "aug_dense2"):
        p.alias(f"bert.encoder.mult_{part}.{task}", f"{name}.{part}")
    return wide


def function(p, config, name, x, mask, task):
    if config["pals"]:
        return pal(p, config, name, x, mask, task)
    return low_rank(p, config, name, x)


def scaled(p, name, x):
    return x * 2 * torch.sigmoid(p(f"{name}.lhuc", x.size(-1)))


def layer(p, config, name, h, mask, task, kind, tasks):
    """One BERT layer; `kind` is mult, houlsby, or nothing."""
    d, lhuc = config["hidden_size"], config["lhuc"]
    a = attention(p, f"{name}.attention.self", h, mask, config["num_attention_heads"])
    a = p.linear(f"{name}.attention.output.dense", a, d)
    if kind == "houlsby":
        a = a + low_rank(p, config, f"{name}.attention.output.multi_layers.{task}", a)
    a = p.norm(f"{name}.attention.output.LayerNorm", h + a)
    inner = F.gelu(p.linear(f"{name}.intermediate.dense", a, config["intermediate_size"]))
    out = p.linear(f"{name}.output.dense", inner, d)
    added = 0.0
    if kind == "mult":
        added = function(p, config, f"{name}.multi_layers.{task}", h, mask, task)
        if lhuc:
            added = scaled(p, f"{name}.multi_lhuc.{task}", added)
    elif kind == "houlsby":
        for other in tasks if lhuc else [task]:
            found = function(p, config, f"{name}.output.multi_layers.{other}", a, mask, other)
            added = found if other == (0 if lhuc else task) else added  # with lhuc it is always the first
    out = p.norm(f"{name}.output.LayerNorm", out + a + added)
    return scaled(p, f"{name}.multi_lhuc.{task}", out) if lhuc and kind != "mult" else out


def run(p, config, ids, mask, types, task, multis=None, pool=False, num_labels=(2, 3, 1)):
    """Hidden states of every layer, pooled and logits for one task."""
    d, tasks = config["hidden_size"], range(len(num_labels))
    multis = range(config["num_hidden_layers"]) if multis is None else multis
    table = "bert.embeddings"
    x = p(f"{table}.word_embeddings.weight", config["vocab_size"], d)[ids]
    x = x + p(f"{table}.position_embeddings.weight", config["max_position_embeddings"], d)[: ids.size(1)]
    x = x + p(f"{table}.token_type_embeddings.weight", config["type_vocab_size"], d)[types]
    h = p.norm(f"{table}.LayerNorm", x)
    kind = "houlsby" if config["houlsby"] else "mult" if config["mult"] else ""
    layers = []
    for n in range(config["num_hidden_layers"]):
        own = kind if n in multis else ""
        h = layer(p, config, f"bert.encoder.layer.{n}", h, mask, task, own, tasks)
        layers.append(h)
    name = f"bert.encoder.multi_layers.{task}"
    if config["top"] and config["bert_lay_top"]:
        layers[-1] = layer(p, config, name, h, mask, 0, "", tasks)  # task 0 of its own scales, always
        if config["lhuc"]:
            for other in tasks:
                p(f"{name}.multi_lhuc.{other}.lhuc", d)
    elif config["top"]:
        x = p.linear(f"bert.encoder.mult_dense.{task}", h, config["hidden_size_aug"])
        for n in range(6):
            a = attention(p, f"{name}.{n}.self", x, mask, 12)
            a = p.linear(f"{name}.{n}.output.dense", a, x.size(-1))
            x = p.norm(f"{name}.{n}.output.LayerNorm", a + x)
        layers[-1] = p.linear(f"bert.encoder.mult_dense2.{task}", x, d)
    where = f"mult_dense_layers.{task}" if pool else "dense"
    pooled = torch.tanh(p.linear(f"bert.pooler.{where}", layers[-1][:, 0], d))
    return layers, pooled, p.linear(f"classifier.{task}", pooled, num_labels[task])
