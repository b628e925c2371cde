"""Importing checkpoints of CA-MTL (CAMTL/CA-MTL): `CaMtl` with its base or its large encoder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from weft.encoder.load import Encoder, weights_sha256
from weft.errors import WeftError, did_you_mean
from weft.interop.ca_mtl.keys import places_of_adapters, places_of_encoder, places_of_heads
from weft.interop.foreign_inputs import bare_bert, give_tokenizer, named_tasks, read_config, read_state
from weft.methods import CaMtl
from weft.model.model import Model
from weft.tasks.task import Task

if TYPE_CHECKING:
    from transformers import BertConfig

HEAD_DROPOUT = 0.1
"""Hard-coded in the authors' decoder."""

BERT = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings"),
    *("type_vocab_size", "initializer_range", "layer_norm_eps", "pad_token_id"),
)
"""The keys of the authors' configuration that belong to BERT."""

_DECODER = re.compile(r"decoders\.(\d+)\.model\.weight")


def load_ca_mtl(
    state: Mapping[str, Any] | str | Path,
    config: Mapping[str, Any] | str | Path,
    tasks: Sequence[str | Task],
    *,
    train_encoder: str | None = None,
    tokenizer: Any = None,
) -> Model:
    """Load a model that computes what the authors' `CaMtl` computes, any mix of tasks in one pass.

    Base and large are distinguished by their keys. Rows may have any length up to the authors'
    `max_seq_length`, to which their code must pad.

    Args:
        state: the state dict, or the file that holds it.
        config: the authors' configuration, BERT's with `max_seq_length`, or its JSON file. By
            default `max_seq_length` is read from the state dict.
        tasks: the tasks' names in the order of their decoders; or `weft.Task`s of these sizes, to set pairs
            of texts, label names or a range. A decoder with one output is a regression.
        train_encoder: which encoder weights train from now on; by default the upper half, as in the paper,
            which is nothing of a single block.
        tokenizer: the tokenizer of BERT, for `predict`: a Hugging Face tokenizer, or its folder.
    """
    state = read_state(state)
    variant = _read_variant(state, config)
    named = _tasks(state, tasks, variant)
    bert = bare_bert(variant.bert, state, {})
    encoder = Encoder("ca_mtl", bert)
    give_tokenizer(encoder, tokenizer)
    # a single block has no half: the authors' code gives it no conditional norms
    single = variant.bert.num_hidden_layers == 1
    method = CaMtl(
        size=variant.size,
        length=variant.length,
        train_encoder=train_encoder or ("none" if single else "layers top half"),
        norm="none" if single else "code",
    )
    model = Model(
        encoder, named, method, pool="pooler", head_dropout=HEAD_DROPOUT, max_length=variant.length
    ).eval()
    places = places_of_encoder(bert, model.num_layers, renamed_top=variant.size == "base")
    places.of |= places_of_adapters(model).of | places_of_heads(model).of
    places.fill(state)
    encoder.sha256 = weights_sha256(bert)  # the hash of the weights that were read, not of the initial ones
    return model


@dataclass(frozen=True)
class _Variant:
    """The variant of a checkpoint.

    Attributes:
        bert: the encoder's configuration.
        size: which of the two encoders it has.
        length: L, the authors' `max_seq_length`.
        num_tasks: the number of tasks in the configuration, if it is there.
    """

    bert: BertConfig
    size: Literal["base", "large"]
    length: int
    num_tasks: int | None


def _read_variant(state: Mapping[str, Tensor], config: Mapping[str, Any] | str | Path) -> _Variant:
    where, settings = read_config(config)
    if any(key.startswith("bert.encoder.adapter_layer.") for key in state):
        size: Literal["base", "large"] = "large"
    elif any(".adapter.bottleneck." in key for key in state):
        size = "base"
    else:
        raise WeftError(
            "state: neither CA-MTL base (bert.encoder.layer.N.adapter.…) nor large "
            "(bert.encoder.adapter_layer.…): no key of either is there"
        )
    bert = _bert_config(where, {key: settings[key] for key in BERT if settings.get(key) is not None})
    matrices = [v for key, v in state.items() if key.endswith(".random_weight_matrix")]
    if not matrices or not matrices[0].dim():
        raise WeftError("state: no layer has a random_weight_matrix, which gives the length of a row")
    length, configured = matrices[0].size(0), settings.get("max_seq_length")
    if configured not in (None, length):
        raise WeftError(f"{where}: max_seq_length: {configured!r}; the state dict was made for {length}")
    mistakes = []
    if bert.hidden_size % length:
        mistakes.append(f"hidden_size {bert.hidden_size}: not a multiple of max_seq_length {length}")
    if size == "base" and bert.num_hidden_layers % 2:
        mistakes.append(f"num_hidden_layers {bert.num_hidden_layers}: CA-MTL base takes an even number")
    if bert.hidden_size % bert.num_attention_heads:
        mistakes.append(f"hidden_size {bert.hidden_size}: not a multiple of {bert.num_attention_heads} heads")
    if mistakes:
        raise WeftError(
            f"{where}: the authors' code cannot run this:\n" + "\n".join(f"  {m}" for m in mistakes)
        )
    return _Variant(bert, size, length, settings.get("num_tasks"))


def _bert_config(where: str, settings: dict[str, Any]) -> BertConfig:
    from transformers import BertConfig
    from transformers.activations import ACT2FN

    default = BertConfig()
    mistakes = []
    for key, value in settings.items():
        kind = type(getattr(default, key))
        if kind is float and type(value) is int:
            settings[key] = float(value)
        elif kind in (int, float) and type(value) is not kind:
            mistakes.append(
                f"{key}: expected {'a whole number' if kind is int else 'a number'}; found {value!r}"
            )
    if (act := settings.get("hidden_act", "gelu")) not in ACT2FN:
        mistakes.append(f"hidden_act: {act!r}; {did_you_mean(str(act), list(ACT2FN))}")
    if mistakes:
        raise WeftError(f"{where} has wrong keys:\n" + "\n".join(f"  {m}" for m in mistakes))
    return BertConfig(**settings)


def _tasks(state: Mapping[str, Tensor], names: Sequence[str | Task], variant: _Variant) -> list[Task]:
    """Return the tasks in the order of their decoders, whose sizes are in the state dict."""
    heads = {int(match[1]): key for key in state if (match := _DECODER.fullmatch(key))}
    if sorted(heads) != list(range(len(heads))) or not heads:
        raise WeftError(f"state: expected decoders.0.model.weight and so on; found {sorted(heads)}")
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise WeftError(f"tasks: expected the tasks' names in the order of their decoders; found {names!r}")
    for source, number in (("tasks", len(names)), ("config: num_tasks", variant.num_tasks)):
        if number not in (None, len(heads)):
            raise WeftError(f"{source}: {number}; the state dict has {len(heads)} decoders")
    for key in heads.values():
        if state[key].dim() != 2:
            raise WeftError(f"state: {key}: expected a matrix; found shape {list(state[key].shape)}")
    sizes = [state[heads[i]].size(0) for i in range(len(heads))]
    return named_tasks(sizes, names, "its decoder")
