"""The target tensor of each key of a CA-MTL state dict in a weft model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from weft.interop.state_dict_map import Places

if TYPE_CHECKING:
    from weft.adapters.film import Film
    from weft.adapters.stacked import StackedLinear
    from weft.model.model import Model

NORMS = {"norm_1": "attention.output", "norm_2": "output"}
RENAMED = ("attention.", "intermediate.", "output.")
"""The authors' base model calls these new_… in the top layer, so that it is not loaded from BERT."""


def places_of_encoder(bert: nn.Module, layers: int, renamed_top: bool) -> Places:
    """BERT itself: Hugging Face's names, except for the top layer of base."""
    places = Places()
    top = f"encoder.layer.{layers - 1}."
    for name, parameter in bert.named_parameters():
        places.put(f"bert.{_renamed(name, top) if renamed_top else name}", parameter.data)
    return places


def places_of_adapters(model: Model) -> Places:
    """The modules conditioned on the task: tasks share them, except for the rows of the task embedding."""
    places = Places()
    renamed = "top" not in model.adapters
    top = f"encoder.layer.{model.num_layers - 1}."
    z = None
    for key, adapters in model.adapters.items():
        adapter: Any = next(iter(adapters))  # type: ignore[call-overload]
        layer, _, kind = key.rpartition("/")
        block = f"encoder.layer.{layer}."
        if kind == "embeddings":
            z = adapter.condition.get_parameter("z")
            _film(places, "bert.conditional_alignment", adapter.film)
        elif kind == "scores":
            _linear(places, "bert.encoder.task_transformation", adapter.condition.transform)
            name = f"{block}attention.self."
            name = f"bert.{_renamed(name, top) if renamed else name}"
            places.put(f"{name}random_weight_matrix", adapter.get_parameter("a").data[0])
            _film(places, f"{name}cond_block_diag_attn", adapter.film)
        elif kind in NORMS:
            name = f"{block}{NORMS[kind]}.LayerNorm"
            name = f"bert.{_renamed(name, top) if renamed else name}"
            _film(places, f"{name}.ln_weight_modulation", adapter.film)
        elif kind == "block":
            _bottleneck(places, f"bert.{block}adapter.bottleneck", adapter.bottleneck)
            name = f"bert.{block}adapter.condlayernorm"
            for part in ("weight", "bias"):
                places.put(f"{name}.{part}", adapter.norm.get_parameter(part).data[0])
            _film(places, f"{name}.ln_weight_modulation", adapter.norm.film)
        else:
            for number, bottleneck in enumerate(adapter.bottlenecks):
                _bottleneck(places, f"bert.encoder.adapter_layer.{number}", bottleneck)
    assert z is not None
    places.put("bert.task_type_embeddings.weight", z.data)
    return places


def places_of_heads(model: Model) -> Places:
    """The decoders, in the order of the tasks."""
    places = Places()
    for number, task in enumerate(model.tasks):
        head: Any = model.heads[task.head]
        slot = head.stacks["weight"].slots.of_task[number]
        for part in ("weight", "bias"):
            places.put(f"decoders.{number}.model.{part}", head.get_parameter(part).data[slot])
    return places


def _renamed(name: str, top: str) -> str:
    inner = name.removeprefix(top)
    return f"{top}new_{inner}" if name.startswith(top) and inner.startswith(RENAMED) else name


def _linear(places: Places, name: str, linear: StackedLinear) -> None:
    for part in ("weight", "bias"):
        places.put(f"{name}.{part}", linear.get_parameter(part).data[0])


def _film(places: Places, name: str, film: Film) -> None:
    _linear(places, f"{name}.gb_weights", film.generate)


def _bottleneck(places: Places, name: str, bottleneck: Any) -> None:
    _linear(places, f"{name}.emb_transf", bottleneck.transform)
    _film(places, f"{name}.hidden_modulation", bottleneck.film)
    _linear(places, f"{name}.down_proj_layer", bottleneck.down)
    _linear(places, f"{name}.up_proj_layer", bottleneck.up)
