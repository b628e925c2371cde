"""Importing checkpoints of "BERT and PALs" (AsaCooperStickland/Bert-n-Pals): all of `BertForMultiTask`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from weft.encoder.load import Encoder, weights_sha256
from weft.errors import WeftError
from weft.interop.bert_n_pals.keys import places_of_encoder, places_of_tasks
from weft.interop.bert_n_pals.variant import PAL_HEADS, TOP_HEADS, Variant, check_runs, read_variant
from weft.interop.foreign_inputs import bare_bert, give_tokenizer, named_tasks, read_state
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
from weft.model.model import Model
from weft.tasks.task import Task


def load_bert_n_pals(
    state: Mapping[str, Any] | str | Path,
    config: Mapping[str, Any] | str | Path,
    num_labels: Sequence[int],
    task_names: Sequence[str | Task] | None = None,
    *,
    layers: Sequence[int] | None = None,
    tokenizer: Any = None,
) -> Model:
    """Load a model that computes what the authors' `BertForMultiTask` computes, all tasks in one pass.

    All parameters train, as in the paper. If the authors' code uses the parameters of a different task than
    it seems to (LHUC with `houlsby`, LHUC in a layer on top), values are copied to where they have the same
    effect.

    Args:
        state: the state dict, or the file that holds it.
        config: the authors' configuration (`pals`, `mult`, `hidden_size_aug`, …), or its JSON file.
        num_labels: the number of outputs of each task; one means regression.
        task_names: the tasks' names, by default `task0`, `task1`, …; or `weft.Task`s of these sizes, to set
            pairs of texts, label names or a range.
        layers: the layers with task-specific functions, if the code's list `multis` was edited; by default
            the layers for which the state dict has such keys, with a warning if these are not all.
        tokenizer: the tokenizer of BERT, for `predict`: a Hugging Face tokenizer, or its folder.
    """
    state = read_state(state)
    tasks = _tasks(num_labels, task_names)
    variant = read_variant(config, len(tasks))
    pooled_by_task = any(key.startswith("bert.pooler.mult_dense_layers.") for key in state)
    check_runs(variant, pooled_by_task)
    widths = {"hidden_size_aug": variant.hidden_size_aug, "extra_dim": variant.extra_dim}
    bert = bare_bert(variant.bert(), state, widths)  # first: it refuses absurd numbers of layers
    where = _layers(variant, state) if layers is None else [int(n) for n in layers]
    encoder = Encoder("bert_n_pals", bert)
    give_tokenizer(encoder, tokenizer)
    method = _method(variant, state, where, pooled_by_task)
    model = Model(encoder, tasks, method, pool="pooler", head_dropout=variant.hidden_dropout_prob).eval()
    places = places_of_encoder(bert, own_pooler=not pooled_by_task)
    places.of |= places_of_tasks(model, variant).of
    places.fill(state)
    if pooled_by_task:
        for parameter in bert.pooler.parameters():
            parameter.data.zero_()  # the pooler of each task is added to it
    encoder.sha256 = weights_sha256(bert)  # the hash of the weights that were read, not of the initial ones
    return model


def _tasks(num_labels: Sequence[int], names: Sequence[str | Task] | None) -> list[Task]:
    sizes = list(num_labels) if isinstance(num_labels, list | tuple) else []
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        raise WeftError(
            f"num_labels: expected the outputs of each task, such as [2, 3, 1]; found {num_labels!r}"
        )
    named = [f"task{i}" for i in range(len(sizes))] if names is None else list(names)
    if len(named) != len(sizes):
        raise WeftError(f"task_names: {len(named)} names for {len(sizes)} tasks (num_labels)")
    return named_tasks(sizes, named, "num_labels")


def _method(variant: Variant, state: Mapping[str, Tensor], layers: list[int], pooled_by_task: bool) -> Method:
    """Return the method of weft that equals the authors' variant."""
    other_layers = [n for n in range(variant.num_hidden_layers) if n not in layers]
    dropout: dict[str, Any] = {"attention_dropout": variant.attention_probs_dropout_prob}
    aug, low = variant.hidden_size_aug, variant.low_rank
    parts: list[Method] = []
    scaled = list(range(variant.num_hidden_layers))  # the layers whose output LHUC scales
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
        scaled = other_layers
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
    """Return the layers that have task-specific functions.

    The authors' code has a list `multis` to edit for this. A layer without any such key in the state dict is
    assumed to be left out, with a warning; if no layer has one, the keys are missing.
    """
    if not (variant.mult or variant.houlsby):
        return []
    count = variant.num_hidden_layers
    inside = ("attention.output.", "output.") if variant.houlsby else ("",)
    present = []
    for n in range(count):
        starts = tuple(f"bert.encoder.layer.{n}.{part}multi_layers." for part in inside)
        if any(key.startswith(starts) for key in state):
            present.append(n)
    if present and len(present) < count:
        out = [n for n in range(count) if n not in present]
        warnings.warn(
            f"the state dict has no task-specific functions for the layers {out}: they are assumed to be "
            "left out by "
            f"the code's list multis; pass layers={present} to silence this warning",
            stacklevel=3,
        )
    return present or list(range(count))
