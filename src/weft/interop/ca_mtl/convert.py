"""The checkpoints of CA-MTL (CAMTL/CA-MTL): `CaMtl` with its base or its large encoder."""

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
from weft.interop.foreign_inputs import give_tokenizer, named_tasks, read_config, read_state
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
"""What of the authors' configuration is BERT's."""

_DECODER = re.compile(r"decoders\.(\d+)\.model\.weight")


def load_ca_mtl(
    state: Mapping[str, Any] | str | Path,
    config: Mapping[str, Any] | str | Path,
    tasks: Sequence[str | Task],
    *,
    train_encoder: str = "layers top half",
    tokenizer: Any = None,
) -> Model:
    """A model that computes what the authors' `CaMtl` computes, every mix of tasks in one pass.

    Base and large are told apart by their keys. Rows may be of any length up to the authors'
    `max_seq_length`, to which their own code must pad.

    Args:
        state: the state dict, or the file that holds it.
        config: the authors' configuration, BERT's with `max_seq_length`, or its JSON file. Without
            `max_seq_length` the state dict says it.
        tasks: the tasks' names in the order of their decoders; or `weft.Task`s of these sizes, where pairs of
            texts, label names or a range are to be known. A decoder of one output is a regression.
        train_encoder: what of the encoder trains from here on; as in the paper the upper half.
        tokenizer: of BERT, for `predict`: a Hugging Face tokenizer, or the folder that holds one.
    """
    from transformers import BertModel

    state = read_state(state)
    found = _read_variant(state, config)
    named = _tasks(state, tasks, found)
    bert = BertModel(found.bert).eval()
    encoder = Encoder("ca_mtl", bert)
    give_tokenizer(encoder, tokenizer)
    method = CaMtl(size=found.size, length=found.length, train_encoder=train_encoder)
    model = Model(
        encoder, named, method, pool="pooler", head_dropout=HEAD_DROPOUT, max_length=found.length
    ).eval()
    places = places_of_encoder(bert, model.num_layers, renamed_top=found.size == "base")
    places.of |= places_of_adapters(model).of | places_of_heads(model).of
    places.fill(state)
    encoder.sha256 = weights_sha256(bert)  # of the weights read, not of those that were there before
    return model


@dataclass(frozen=True)
class _Variant:
    """What a checkpoint is.

    Attributes:
        bert: the encoder's configuration.
        size: which of the two encoders.
        length: L, the authors' `max_seq_length`.
        num_tasks: what the configuration says of it, if it does.
    """

    bert: BertConfig
    size: Literal["base", "large"]
    length: int
    num_tasks: int | None


def _read_variant(state: Mapping[str, Tensor], config: Mapping[str, Any] | str | Path) -> _Variant:
    where, given = read_config(config)
    if any(key.startswith("bert.encoder.adapter_layer.") for key in state):
        size: Literal["base", "large"] = "large"
    elif any(".adapter.bottleneck." in key for key in state):
        size = "base"
    else:
        raise WeftError(
            "state: neither CA-MTL base (bert.encoder.layer.N.adapter.…) nor large "
            "(bert.encoder.adapter_layer.…): no key of either is there"
        )
    bert = _bert_config(where, {key: given[key] for key in BERT if given.get(key) is not None})
    places = [v for key, v in state.items() if key.endswith(".random_weight_matrix")]
    if not places or not places[0].dim():
        raise WeftError("state: no layer has a random_weight_matrix, which tells the length of a row")
    length, said = places[0].size(0), given.get("max_seq_length")
    if said not in (None, length):
        raise WeftError(f"{where}: max_seq_length: {said!r}; the state dict was made for {length}")
    mistakes = []
    if bert.hidden_size % length:
        mistakes.append(f"hidden_size {bert.hidden_size}: no multiple of max_seq_length {length}")
    if size == "base" and bert.num_hidden_layers % 2:
        mistakes.append(f"num_hidden_layers {bert.num_hidden_layers}: CA-MTL base takes an even number")
    if bert.hidden_size % bert.num_attention_heads:
        mistakes.append(f"hidden_size {bert.hidden_size}: no multiple of {bert.num_attention_heads} heads")
    if mistakes:
        raise WeftError(
            f"{where}: the authors' code cannot run this:\n" + "\n".join(f"  {m}" for m in mistakes)
        )
    return _Variant(bert, size, length, given.get("num_tasks"))


def _bert_config(where: str, given: dict[str, Any]) -> BertConfig:
    from transformers import BertConfig
    from transformers.activations import ACT2FN

    default = BertConfig()
    mistakes = []
    for key, value in given.items():
        kind = type(getattr(default, key))
        if kind is float and type(value) is int:
            given[key] = float(value)
        elif kind in (int, float) and type(value) is not kind:
            mistakes.append(
                f"{key}: expected {'a whole number' if kind is int else 'a number'}; found {value!r}"
            )
    if (act := given.get("hidden_act", "gelu")) not in ACT2FN:
        mistakes.append(f"hidden_act: {act!r}; {did_you_mean(str(act), list(ACT2FN))}")
    if mistakes:
        raise WeftError(f"{where} has wrong keys:\n" + "\n".join(f"  {m}" for m in mistakes))
    return BertConfig(**given)


def _tasks(state: Mapping[str, Tensor], given: Sequence[str | Task], found: _Variant) -> list[Task]:
    """The tasks, in the order of their decoders, whose sizes the state dict has."""
    heads = {int(match[1]): key for key in state if (match := _DECODER.fullmatch(key))}
    if sorted(heads) != list(range(len(heads))) or not heads:
        raise WeftError(f"state: expected decoders.0.model.weight and so on; found {sorted(heads)}")
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise WeftError(f"tasks: expected the tasks' names in the order of their decoders; found {given!r}")
    for what, number in (("tasks", len(given)), ("config: num_tasks", found.num_tasks)):
        if number not in (None, len(heads)):
            raise WeftError(f"{what}: {number}; the state dict has {len(heads)} decoders")
    for key in heads.values():
        if state[key].dim() != 2:
            raise WeftError(f"state: {key}: expected a matrix; found shape {list(state[key].shape)}")
    sizes = [state[heads[i]].size(0) for i in range(len(heads))]
    return named_tasks(sizes, given, "its decoder")
