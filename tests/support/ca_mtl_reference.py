"""CA-MTL as the authors compute it, row by row and in plain loops: what the loader is compared with.

Written from their equations; the golden file of the base model says whether it is right.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F


def shapes(config, sizes, large):
    """Every key of a state dict and its shape."""
    d, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    length = config["max_seq_length"]
    block = math.ceil(length / (d // length))
    found: dict[str, tuple[int, ...]] = {}

    def linear(name, i, o):
        found[f"{name}.weight"], found[f"{name}.bias"] = (o, i), (o,)

    def norm(name, conditional):
        found[f"{name}.weight"] = found[f"{name}.bias"] = (d,)
        if conditional:
            linear(f"{name}.ln_weight_modulation.gb_weights", d, 2 * d)

    def bottleneck(name):
        linear(f"{name}.emb_transf", d, d)
        linear(f"{name}.hidden_modulation.gb_weights", d, 2 * d)
        linear(f"{name}.down_proj_layer", d, d // 3)
        linear(f"{name}.up_proj_layer", d // 3, d)

    for name, rows in (("word", "vocab_size"), ("position", "max_position_embeddings")):
        found[f"bert.embeddings.{name}_embeddings.weight"] = (config[rows], d)
    found["bert.embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], d)
    norm("bert.embeddings.LayerNorm", False)
    found["bert.task_type_embeddings.weight"] = (len(sizes), d)
    linear("bert.conditional_alignment.gb_weights", d, 2 * d)
    linear("bert.encoder.task_transformation", d, d)
    for n in range(layers):
        new = "new_" if n == layers - 1 and not large else ""
        conditional = n >= layers - layers // 2
        prefix = f"bert.encoder.layer.{n}.{new}"
        for name in ("query", "key", "value"):
            linear(f"{prefix}attention.self.{name}", d, d)
        found[f"{prefix}attention.self.random_weight_matrix"] = (length, block)
        linear(f"{prefix}attention.self.cond_block_diag_attn.gb_weights", d, 2 * block)
        linear(f"{prefix}attention.output.dense", d, d)
        norm(f"{prefix}attention.output.LayerNorm", conditional)
        linear(f"{prefix}intermediate.dense", d, inner)
        linear(f"{prefix}output.dense", inner, d)
        norm(f"{prefix}output.LayerNorm", conditional)
        if new:
            bottleneck(f"bert.encoder.layer.{n}.adapter.bottleneck")
            norm(f"bert.encoder.layer.{n}.adapter.condlayernorm", True)
        if large:
            bottleneck(f"bert.encoder.adapter_layer.{n}")
    linear("bert.pooler.dense", d, d)
    for t, size in enumerate(sizes):
        linear(f"decoders.{t}.model", d, size)
    return found


def draw(config, sizes, large, seed=0):
    """A state dict of numbers large enough to show a wrong place."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for key, shape in shapes(config, sizes, large).items():
        value = torch.randn(shape, generator=generator) * 0.2
        state[key] = value + 1 if key.endswith(("LayerNorm.weight", "condlayernorm.weight")) else value
    return state


class Reference:
    """One row at a time, of its own length: `state`, `config`, and whether it is large."""

    def __init__(self, state, config, large):
        self.state, self.config, self.large = state, config, large
        self.d, self.layers = config["hidden_size"], config["num_hidden_layers"]

    def linear(self, name, x):
        return F.linear(x, self.state[f"{name}.weight"], self.state[f"{name}.bias"])

    def film(self, name, z, x):
        gamma, beta = self.linear(f"{name}.gb_weights", z).chunk(2)
        return (1 + gamma) * x + beta

    def norm(self, name, x, z):
        weight, bias = self.state[f"{name}.weight"], self.state[f"{name}.bias"]
        if f"{name}.ln_weight_modulation.gb_weights.weight" in self.state:
            weight = self.film(f"{name}.ln_weight_modulation", z, weight)
        return F.layer_norm(x, (self.d,), weight, bias, self.config["layer_norm_eps"])

    def bottleneck(self, name, z, x):
        x = self.film(f"{name}.hidden_modulation", self.linear(f"{name}.emb_transf", z), x)
        return self.linear(f"{name}.up_proj_layer", self.linear(f"{name}.down_proj_layer", x))

    def attention(self, name, z, x):
        length = self.config["max_seq_length"]
        heads = self.config["num_attention_heads"]
        rows = self.film(f"{name}.cond_block_diag_attn", z, self.state[f"{name}.random_weight_matrix"])
        matrix = torch.block_diag(*rows.chunk(self.d // length))[:, :length]
        q, k, v = (
            self.linear(f"{name}.{part}", x).unflatten(-1, (heads, -1)).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(1, 2) / math.sqrt(self.d // heads)
        probabilities = (scores + matrix[: len(x), : len(x)]).softmax(-1)
        return (probabilities @ v).transpose(0, 1).flatten(1)

    def row(self, ids, types, task):
        """ids [l], types [l] → (aligned, every block's output, sequence, pooled, logits)."""
        embeddings = sum(
            self.state[f"bert.embeddings.{name}_embeddings.weight"][index]
            for name, index in (("word", ids), ("position", torch.arange(len(ids))), ("token_type", types))
        )
        raw = self.state["bert.task_type_embeddings.weight"][task]
        x = self.norm("bert.embeddings.LayerNorm", embeddings, raw)
        x = aligned = self.film("bert.conditional_alignment", raw, x)
        z = self.linear("bert.encoder.task_transformation", raw)
        blocks, path = [], torch.zeros_like(x)
        for n in range(self.layers):
            new = "new_" if n == self.layers - 1 and not self.large else ""
            prefix = f"bert.encoder.layer.{n}.{new}"
            attended = self.linear(
                f"{prefix}attention.output.dense", self.attention(f"{prefix}attention.self", z, x)
            )
            after = self.norm(f"{prefix}attention.output.LayerNorm", attended + x, z)
            act = F.relu if self.config.get("hidden_act") == "relu" else F.gelu
            inner = act(self.linear(f"{prefix}intermediate.dense", after))
            x = self.norm(f"{prefix}output.LayerNorm", self.linear(f"{prefix}output.dense", inner) + after, z)
            if new:
                adapter = f"bert.encoder.layer.{n}.adapter"
                mixed = self.bottleneck(f"{adapter}.bottleneck", z, x) + after
                x = self.norm(f"{adapter}.condlayernorm", mixed, z)
            if self.large:
                path = self.bottleneck(f"bert.encoder.adapter_layer.{n}", z, x + path)
            blocks.append(x)
        sequence = path if self.large else x
        pooled = self.linear("bert.pooler.dense", sequence[0]).tanh()
        return aligned, blocks, sequence, pooled, self.linear(f"decoders.{task}.model", pooled)
