"""The configuration of a Bert-n-Pals model, and which configurations the authors' code can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.interop.foreign_inputs import read_config

if TYPE_CHECKING:
    from transformers import BertConfig

PAL_HEADS, TOP_HEADS = 6, 12
"""Hard-coded in the authors' code."""


@dataclass(frozen=True)
class Variant:
    """The authors' configuration; sizes have their names and defaults.

    Attributes:
        pals: whether the functions of `mult` or `houlsby` are projected attention; else low rank.
        mult: whether each task has a function parallel to each layer.
        houlsby: whether each task has functions inside each layer; `mult` is then ignored.
        top: whether projected attention, or a whole layer (`bert_lay_top`), is on top.
        lhuc: whether there are scales: of the functions of `mult`, else of the layer's output.
        extra_dim: the width of low-rank functions, if not `hidden_size_aug`.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    pals: bool = False
    mult: bool = False
    top: bool = False
    lhuc: bool = False
    houlsby: bool = False
    bert_lay_top: bool = False
    num_tasks: int | None = None
    extra_dim: int | None = None
    hidden_size_aug: int = 204

    def bert(self) -> BertConfig:
        """The encoder's configuration, as Hugging Face has it; the code's activation is always GELU."""
        from transformers import BertConfig

        return BertConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=self.intermediate_size,
            hidden_act="gelu",
            hidden_dropout_prob=self.hidden_dropout_prob,
            attention_probs_dropout_prob=self.attention_probs_dropout_prob,
            max_position_embeddings=self.max_position_embeddings,
            type_vocab_size=self.type_vocab_size,
            layer_norm_eps=1e-12,
        )

    @property
    def low_rank(self) -> int:
        """The width of low-rank functions."""
        return self.extra_dim or self.hidden_size_aug


UNUSED = ("hidden_act", "initializer_range")
"""Read by the authors' code but never used: the activation is always GELU."""


def check_runs(variant: Variant, pooled_by_task: bool) -> None:
    """Refuse configurations that the authors' code cannot run."""
    aug = variant.hidden_size_aug
    attends = variant.pals and (variant.mult or variant.houlsby)
    why = None
    if variant.houlsby and variant.mult and variant.pals:
        why = "houlsby, mult and pals together: its layers then have no function to tie"
    elif variant.houlsby and variant.lhuc and variant.pals:
        why = "houlsby, lhuc and pals together: it calls the projected attention without a mask"
    elif attends and aug % PAL_HEADS:
        why = f"pals with hidden_size_aug {aug}: not a multiple of its {PAL_HEADS} heads"
    elif variant.top and not variant.bert_lay_top and aug % TOP_HEADS:
        why = f"top with hidden_size_aug {aug}: not a multiple of its {TOP_HEADS} heads"
    elif variant.hidden_size % variant.num_attention_heads:
        why = f"hidden_size {variant.hidden_size}: not a multiple of its {variant.num_attention_heads} heads"
    elif pooled_by_task and not (variant.mult or variant.top):
        why = "one pooler per task without mult or top: it then expects a shared pooler"
    if why:
        raise WeftError(f"config: the authors' code cannot run {why}")


def read_variant(config: Mapping[str, Any] | str | Path, tasks: int) -> Variant:
    """Read the configuration; an error lists every wrong key."""
    where, values = read_config(config)
    for f in fields(Variant):
        if isinstance(f.default, bool) and values.get(f.name) in (0, 1):
            values[f.name] = bool(values[f.name])
    if values.get("num_tasks") == 1:
        del values["num_tasks"]  # their default, which a shared model never reads
    names = [f.name for f in fields(Variant)]
    mistakes = []
    for key in values:
        if key not in names and key not in UNUSED:
            # only keys that look misspelt: Google's files have keys that the authors do not read either
            for near in get_close_matches(key, names, 1, 0.8):
                mistakes.append(f"{key}: no such key; did you mean {near!r}?")
    if values.get("vocab_size") is None:
        mistakes.append("vocab_size: missing")
    for f in fields(Variant):
        value = values.get(f.name, f.default)
        flag = isinstance(f.default, bool)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        empty = value is None and f.default is None
        if f.name in values and not (isinstance(value, bool) if flag else number or empty):
            mistakes.append(f"{f.name}: expected {'true or false' if flag else 'a number'}; found {value!r}")
    if values.get("num_tasks") not in (None, tasks):
        mistakes.append(f"num_tasks: {values['num_tasks']}; num_labels has {tasks}")
    if mistakes:
        raise WeftError(f"{where} has wrong keys:\n" + "\n".join(f"  {m}" for m in mistakes))
    return Variant(**{key: value for key, value in values.items() if key in names})
