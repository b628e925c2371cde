"""The checkpoints of "BERT and PALs" (AsaCooperStickland/Bert-n-Pals): `BertForMultiTask`, every variant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.interop.bert_n_pals_keys import places_of_encoder, places_of_tasks
from weft.methods import (
    Composed,
    Full,
    HoulsbyPals,
    HoulsbyParallel,
    Lhuc,
    LowRank,
    Method,
    Pals,
    PalsLhuc,
    TopAttention,
    TopLayer,
)

if TYPE_CHECKING:
    from weft.model import Model

PAL_HEADS, TOP_HEADS = 6, 12
"""Hard-coded in the authors' code."""


@dataclass(frozen=True)
class Variant:
    """The authors' configuration; sizes have their names and defaults.

    Attributes:
        pals: projected attention, where `mult` or `houlsby` adds something; else low rank.
        mult: a task's function beside each layer.
        houlsby: a task's functions inside each layer; `mult` is ignored then.
        top: something on top: projected attention, or a whole layer (`bert_lay_top`).
        lhuc: scales: of what `mult` adds where it does, else of the layer's output.
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

    @property
    def low_rank(self) -> int:
        """The width of low-rank functions."""
        return self.extra_dim or self.hidden_size_aug


UNUSED = ("hidden_act", "initializer_range")
"""Read by the authors' code and never used after: the activation is GELU always."""


def load_bert_n_pals(
    state: Mapping[str, Tensor] | str | Path,
    config: Mapping[str, Any] | str | Path,
    num_labels: Sequence[int],
    task_names: Sequence[str] | None = None,
    *,
    tokenizer: Any = None,
) -> Model:
    """A model that computes what the authors' `BertForMultiTask` computes, all tasks in one pass.

    Everything trains, as in the paper. Where the authors' code takes another task's parameters than it
    seems to (LHUC with `houlsby`, LHUC in a layer on top), the values go where they have the same effect.

    Args:
        state: the state dict, or the file that holds it.
        config: the authors' configuration (`pals`, `mult`, `hidden_size_aug`, …), or its JSON file.
        num_labels: the number of outputs of each task; one means regression.
        task_names: the tasks' names; by default `task0`, `task1`, ….
        tokenizer: of BERT, for `predict`: a Hugging Face tokenizer, or the folder that holds one.
    """
    from transformers import AutoTokenizer, BertConfig, BertModel

    from weft.encoder.load import Encoder
    from weft.model import Model
    from weft.tasks.task import Task

    state = _state(state)
    variant = _variant(config, len(num_labels))
    names = [f"task{i}" for i in range(len(num_labels))] if task_names is None else list(task_names)
    if len(names) != len(num_labels):
        raise WeftError(f"task_names: {len(names)} names for {len(num_labels)} tasks (num_labels)")
    pooled_by_task = any(key.startswith("bert.pooler.mult_dense_layers.") for key in state)
    _check_runs(variant, pooled_by_task)
    method = _method(variant, state, pooled_by_task)
    bert = BertModel(
        BertConfig(
            vocab_size=variant.vocab_size,
            hidden_size=variant.hidden_size,
            num_hidden_layers=variant.num_hidden_layers,
            num_attention_heads=variant.num_attention_heads,
            intermediate_size=variant.intermediate_size,
            hidden_act="gelu",
            hidden_dropout_prob=variant.hidden_dropout_prob,
            attention_probs_dropout_prob=variant.attention_probs_dropout_prob,
            max_position_embeddings=variant.max_position_embeddings,
            type_vocab_size=variant.type_vocab_size,
            layer_norm_eps=1e-12,
        )
    ).eval()
    encoder = Encoder("bert_n_pals", bert)
    if tokenizer is not None:
        text = isinstance(tokenizer, str | Path)
        encoder.tokenizer = AutoTokenizer.from_pretrained(tokenizer) if text else tokenizer
    tasks = [
        Task(name, "regress" if size == 1 else "classify", size=size)
        for name, size in zip(names, num_labels, strict=True)
    ]
    model = Model(encoder, tasks, method, pool="pooler", head_dropout=variant.hidden_dropout_prob).eval()
    places = places_of_encoder(bert, own_pooler=not pooled_by_task)
    places.of |= places_of_tasks(model, variant).of
    places.fill(state)
    if pooled_by_task:
        for parameter in bert.pooler.parameters():
            parameter.data.zero_()  # each task's own is added to it
    from weft.encoder.load import weights_sha256

    encoder.sha256 = weights_sha256(bert)
    return model


def _method(variant: Variant, state: Mapping[str, Tensor], pooled_by_task: bool) -> Method:
    """The authors' variant in weft's words."""
    layers = _layers(variant, state)
    rest = [n for n in range(variant.num_hidden_layers) if n not in layers]
    dropout: dict[str, Any] = {"attention_dropout": variant.attention_probs_dropout_prob}
    aug, low = variant.hidden_size_aug, variant.low_rank
    parts: list[Method] = []
    scaled = list(range(variant.num_hidden_layers))  # whose output LHUC scales
    if variant.houlsby and variant.pals:
        parts.append(HoulsbyPals(d_s=aug, attention_d_s=low, heads=PAL_HEADS, layers=layers, **dropout))
    elif variant.houlsby:
        parts.append(HoulsbyParallel(d_s=low, layers=layers))
    elif variant.mult:
        kind = PalsLhuc if variant.lhuc else Pals
        parts.append(
            kind(d_s=aug, heads=PAL_HEADS, layers=layers, **dropout)
            if variant.pals
            else LowRank(d_s=low, layers=layers, lhuc=variant.lhuc)
        )
        scaled = rest
    if variant.lhuc and scaled:
        parts.append(Lhuc(layers=scaled))
    if variant.top and variant.bert_lay_top:
        parts.append(TopLayer(dropout=variant.hidden_dropout_prob, **dropout))
        if variant.lhuc:
            parts.append(Lhuc(sites=("top",)))
    elif variant.top:
        stacked = [k.split(".")[4] for k in state if k.startswith("bert.encoder.multi_layers.0.")]
        depth = 1 + max((int(number) for number in stacked if number.isdigit()), default=5)
        dropout["dropout"] = variant.hidden_dropout_prob
        parts.append(TopAttention(d_s=aug, depth=depth, heads=TOP_HEADS, **dropout))
    if not parts:
        return Full()
    if pooled_by_task:
        parts[0] = parts[0].model_copy(update={"pooler": "task"})
    return parts[0] if len(parts) == 1 else Composed(methods=tuple(parts))


def _layers(variant: Variant, state: Mapping[str, Tensor]) -> list[int]:
    """The layers that have functions of the tasks' own.

    The code's list `multis` is to be edited for others than all. A layer of which the state dict has no such
    key at all is taken for one that was left out; if that is all of them, their keys are missing.
    """
    count = variant.num_hidden_layers
    inside = ("attention.output.", "output.") if variant.houlsby else ("",)
    there = []
    for n in range(count):
        starts = tuple(f"bert.encoder.layer.{n}.{part}multi_layers." for part in inside)
        if any(key.startswith(starts) for key in state):
            there.append(n)
    return there or list(range(count))


def _check_runs(variant: Variant, pooled_by_task: bool) -> None:
    """Refuse what the authors' own code cannot run."""
    aug = variant.hidden_size_aug
    attends = variant.pals and (variant.mult or variant.houlsby)
    why = None
    if variant.houlsby and variant.mult and variant.pals:
        why = "houlsby, mult and pals together: its layers then have no function to tie"
    elif variant.houlsby and variant.lhuc and variant.pals:
        why = "houlsby, lhuc and pals together: it calls the projected attention without a mask"
    elif attends and aug % PAL_HEADS:
        why = f"pals with hidden_size_aug {aug}: no multiple of its {PAL_HEADS} heads"
    elif variant.top and not variant.bert_lay_top and aug % TOP_HEADS:
        why = f"top with hidden_size_aug {aug}: no multiple of its {TOP_HEADS} heads"
    elif variant.hidden_size % variant.num_attention_heads:
        why = f"hidden_size {variant.hidden_size}: no multiple of its {variant.num_attention_heads} heads"
    elif pooled_by_task and not (variant.mult or variant.top):
        why = "a pooler a task without mult or top: it then looks for a shared one"
    if why:
        raise WeftError(f"config: the authors' code cannot run {why}")


def _variant(config: Mapping[str, Any] | str | Path, tasks: int) -> Variant:
    """The configuration, every wrong key of it told."""
    where = "config"
    if isinstance(config, str | Path):
        where = str(config)
        try:
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, ValueError) as wrong:
            raise WeftError(f"{where} cannot be read as JSON: {wrong}") from None
    given = dict(config if isinstance(config, Mapping) else vars(config))
    known = [f.name for f in fields(Variant)]
    mistakes = []
    for key in given:
        if key not in known and key not in UNUSED:
            # only what looks misspelt: Google's own files have keys that the authors do not read either
            for near in get_close_matches(key, known, 1, 0.8):
                mistakes.append(f"{key}: no such key; did you mean {near!r}?")
    if given.get("vocab_size") is None:
        mistakes.append("vocab_size: missing")
    for f in fields(Variant):
        value = given.get(f.name, f.default)
        flag = isinstance(f.default, bool)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        empty = value is None and f.default is None
        if f.name in given and not (isinstance(value, bool) if flag else number or empty):
            mistakes.append(f"{f.name}: expected {'true or false' if flag else 'a number'}; found {value!r}")
    if given.get("num_tasks") not in (None, tasks):
        mistakes.append(f"num_tasks: {given['num_tasks']}; num_labels has {tasks}")
    if mistakes:
        raise WeftError(f"{where} has wrong keys:\n" + "\n".join(f"  {m}" for m in mistakes))
    return Variant(**{key: value for key, value in given.items() if key in known})


def _state(state: Mapping[str, Tensor] | str | Path) -> Mapping[str, Tensor]:
    if isinstance(state, str | Path):
        path = Path(state)
        if not path.is_file():
            raise WeftError(f"{path}: there is no such file")
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    # data parallelism puts its own name before every key
    return {key.removeprefix("module."): value for key, value in state.items()}
