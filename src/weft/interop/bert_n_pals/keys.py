"""The target tensor of each key of a Bert-n-Pals state dict in a weft model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from weft.interop.state_dict_map import Places

if TYPE_CHECKING:
    from weft.adapters.attention import StackedAttention
    from weft.adapters.projected import Projection
    from weft.adapters.top import ResidualLayer
    from weft.interop.bert_n_pals.variant import Variant
    from weft.model.model import Model

QKV = ("query", "key", "value")
NORM = (("gamma", "weight"), ("beta", "bias"))
MAP = ("weight", "bias")


def places_of_encoder(bert: nn.Module, own_pooler: bool) -> Places:
    """BERT itself: Hugging Face's names, except for gamma and beta of the norms."""
    places = Places()
    norms = {name for name, module in bert.named_modules() if isinstance(module, nn.LayerNorm)}
    for name, parameter in bert.named_parameters():
        module, _, last = name.rpartition(".")
        if name.startswith("pooler.") and not own_pooler:
            continue
        if module in norms:
            last = "gamma" if last == "weight" else "beta"
        places.put(f"bert.{module}.{last}", parameter.data)
    return places


def places_of_tasks(model: Model, variant: Variant) -> Places:
    """The parameters of the tasks: functions, scales, layers on top, poolers and heads."""
    places = Places()
    count = range(len(model.tasks))
    for key, adapters in model.adapters.items():
        layer, _, kind = key.rpartition("/")
        block = f"bert.encoder.layer.{layer}"
        for adapter in adapters:  # type: ignore[attr-defined]
            if hasattr(adapter, "amplitude"):
                _lhuc(places, block if layer else None, adapter.amplitude.get_parameter("l"), count)
            elif kind in ("attention_delta", "ffn_delta"):
                _function(places, block, kind, adapter.function, variant, count)
            elif kind == "top":
                _top(places, adapter, variant, count)
            elif kind == "pooler":
                for i in count:
                    for part in MAP:
                        places.put(
                            f"bert.pooler.mult_dense_layers.{i}.{part}", adapter.get_parameter(part).data[i]
                        )
    for i, task in enumerate(model.tasks):
        head: Any = model.heads[task.head]
        slot = head.stacks["weight"].slots.of_task[i]
        for part in MAP:
            places.put(f"classifier.{i}.{part}", head.get_parameter(part).data[slot])
    return places


def _function(
    places: Places, block: str, kind: str, function: Any, variant: Variant, count: Sequence[int]
) -> None:
    """A function of one layer: parallel to the layer (`mult`), or at one of its sub-layers (`houlsby`)."""
    where = {"attention_delta": "attention.output.", "ffn_delta": "output." if variant.houlsby else ""}[kind]
    # with LHUC, the authors' code does not pass the task: the first task's function serves all tasks
    first_for_all = variant.houlsby and variant.lhuc and kind == "ffn_delta"
    for i in count:
        name = f"{block}.{where}multi_layers.{i}"
        if first_for_all:
            for ours, theirs in (("down", "aug_dense"), ("up", "aug_dense2")):
                for part in MAP:
                    target = getattr(function.project, ours).get_parameter(part).data
                    if i == 0:
                        places.put(f"{name}.{theirs}.{part}", *target)
                    else:
                        places.ignore(f"{name}.{theirs}.{part}", target[0])
            continue
        _projection(places, name, ("aug_dense", "aug_dense2"), function.project, i)
        if function.inside is not None:
            _attention(places, f"{name}.attn", function.inside, i)
            for theirs in ("mult_aug_dense", "mult_aug_dense2"):  # the same pair, once more at the top level
                ours = function.project.down if theirs == "mult_aug_dense" else function.project.up
                for part in MAP:
                    places.put(f"bert.encoder.{theirs}.{i}.{part}", ours.get_parameter(part).data[i])
        if function.amplitude is not None:
            places.put(f"{block}.multi_lhuc.{i}.lhuc", function.amplitude.get_parameter("l").data[i])


def _lhuc(places: Places, block: str | None, scale: Tensor, count: Sequence[int]) -> None:
    """The scales of a layer's output. For a layer on top, the authors' code uses number 0 for every task."""
    for i in count:
        if block is not None:
            places.put(f"{block}.multi_lhuc.{i}.lhuc", scale.data[i])
            continue
        for number in count:
            key = f"bert.encoder.multi_layers.{i}.multi_lhuc.{number}.lhuc"
            if number == 0:
                places.put(key, scale.data[i])
            else:
                places.ignore(key, scale.data[i])


def _top(places: Places, adapter: Any, variant: Variant, count: Sequence[int]) -> None:
    for i in count:
        name = f"bert.encoder.multi_layers.{i}"
        if variant.bert_lay_top:
            _attention_layer(places, f"{name}.attention", adapter.attention, i)
            first, second = adapter.feed_forward.inner.maps
            for part in MAP:
                places.put(f"{name}.intermediate.dense.{part}", first.get_parameter(part).data[i])
                places.put(f"{name}.output.dense.{part}", second.get_parameter(part).data[i])
            _norm(places, f"{name}.output.LayerNorm", adapter.feed_forward.norm, i)
            continue
        for number, layer in enumerate(adapter.layers):
            _attention_layer(places, f"{name}.{number}", layer, i)
        for theirs, ours in (("mult_dense", adapter.project.down), ("mult_dense2", adapter.project.up)):
            for part in MAP:
                places.put(f"bert.encoder.{theirs}.{i}.{part}", ours.get_parameter(part).data[i])


def _attention_layer(places: Places, name: str, layer: ResidualLayer, task: int) -> None:
    attention: Any = layer.inner
    _attention(places, f"{name}.self", attention, task)
    for part in MAP:
        places.put(f"{name}.output.dense.{part}", attention.out.get_parameter(part).data[task])
    _norm(places, f"{name}.output.LayerNorm", layer.norm, task)


def _attention(places: Places, name: str, attention: StackedAttention, task: int) -> None:
    for part in MAP:
        whole = attention.qkv.get_parameter(part).data[task]
        for theirs, third in zip(QKV, whole.chunk(3), strict=True):
            places.put(f"{name}.{theirs}.{part}", third)


def _projection(
    places: Places, name: str, theirs: tuple[str, str], projection: Projection, task: int
) -> None:
    for key, ours in zip(theirs, (projection.down, projection.up), strict=True):
        for part in MAP:
            places.put(f"{name}.{key}.{part}", ours.get_parameter(part).data[task])


def _norm(places: Places, name: str, norm: Any, task: int) -> None:
    for theirs, ours in NORM:
        places.put(f"{name}.{theirs}", norm.get_parameter(ours).data[task])
