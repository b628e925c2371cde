"""Fits a task's head into the head of a class of transformers, where that is the same function.

A class may have a hidden layer that weft's head does not have. Four of them can be made the identity:

- its function can be chosen by the configuration: the function `linear`, with the identity as its weight;
- tanh: its input is scaled by ε = 2⁻²⁰ and its output by 1/ε. For |x| < 256, tanh(ε·x) and ε·x round to the
  same float32, and powers of two lose no digit. bfloat16 has the same range; float16 does not hold 1/ε;
- relu, gelu, silu and others of the form f(z) = z·g(z) with g(z) + g(−z) = 1: f(z) − f(−z) = z. The layer
  computes the C logits z and −z, if 2·C ≤ d;
- `linear` before a LayerNorm (ModernBERT), for tokens: the encoder's final norm comes just before. Its weight
  and bias move into the head's norm, which then normalizes what is normalized already. Of the two norms' ε,
  √(1 + ε) is made up for; what is left is a relative error of ε/(2·v), v the variance of the block's output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from weft.encoder.anatomy import anatomy_of, path_of
from weft.encoder.norms import norm_eps
from weft.interop.hf.forms import Form
from weft.interop.hf.head import Layer, TaskHead
from weft.interop.refusals import CannotExport

EPSILON = 2.0**-20
"""The scale at which tanh is the identity in float32."""

CANCELLING = frozenset(
    {"relu", "gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_accurate", "quick_gelu", "silu", "swish"}
    | {"gelu_pytorch_tanh", "gelu_python_tanh"}
)
"""Names in transformers of functions with f(z) − f(−z) = z."""

_READS = {"cls": "the first token", "mean": "the mean of the tokens"}


@dataclass(frozen=True, eq=False)
class Fitted:
    """Where a task's head goes.

    Attributes:
        settings: what the configuration must have.
        maps: the linear maps, by their paths in the form.
        renormalizes: whether the weight of the encoder's final norm moves into the head's norm.
        note: how a hidden layer that the task lacks was made the identity, for the card; None if none was.
        half: whether float16 holds the numbers in it.
    """

    settings: dict[str, object]
    maps: dict[str, Layer]
    renormalizes: bool = False
    note: str | None = None
    half: bool = True


@dataclass(frozen=True)
class Target:
    """The class that is written.

    Attributes:
        name: its name, such as BertForSequenceClassification.
        form: how it computes logits.
        config: its configuration.
        width: d, the encoder's width.
    """

    name: str
    form: Form
    config: Any
    width: int = field(default=0)


def fit(head: TaskHead, target: Target) -> Fitted:
    """Return the tensors and settings with which the class computes what the head computes.

    Raises:
        CannotExport: there are none.
    """
    form, name = target.form, target.name
    settings: dict[str, object] = dict(form.settings)
    if form.pools:
        if head.pool not in form.pools:
            reads = " or ".join(_READS[pool] for pool in form.pools)
            raise CannotExport(
                f"its head reads {_READS[head.pool]}, and {name} reads {reads}; --to sentence-transformers "
                f"--set output=logits writes this head, and a task with pool: {next(iter(form.pools))} fits"
            )
        settings |= form.pools[head.pool]
    if len(head.hidden) > 1 or (head.hidden and (form.dense is None or form.norm is not None)):
        has = "one, with a norm after it" if form.norm else "none" if form.dense is None else "one"
        count = len(head.hidden)
        raise CannotExport(
            f"its head has {count} hidden layer{'s' * (count > 1)}, a pooler counted; {name} has {has}"
        )
    if form.dense is None:
        return Fitted(settings, {form.output: head.last})
    if form.norm is not None:
        return _fit_norm(head, target, settings)
    if head.hidden:
        return _fit_hidden(head, target, settings)
    return _fit_identity(head, target, settings)


def _fit_hidden(head: TaskHead, target: Target, settings: dict[str, object]) -> Fitted:
    """The task's hidden layer becomes that of the class."""
    form, (layer,) = target.form, head.hidden
    assert form.dense is not None, "the caller has checked it"
    if form.chooses is not None:
        settings[form.chooses] = layer.activation
    elif _activation(target) != layer.activation:
        raise CannotExport(
            f"the hidden layer of its head ends in {layer.activation}, "
            f"and that of {target.name} in {_activation(target)}"
        )
    if len(layer.weight) > target.width:
        raise CannotExport(
            f"the hidden layer of its head has width {len(layer.weight)}, and that of {target.name} "
            f"{target.width}"
        )
    return Fitted(
        settings,
        {
            form.dense: Layer(_padded(layer.weight, target.width), _padded(layer.bias, target.width)),
            form.output: Layer(_padded(head.last.weight.T, target.width).T, head.last.bias),
        },
    )


def _fit_identity(head: TaskHead, target: Target, settings: dict[str, object]) -> Fitted:
    """The hidden layer of the class is made the identity."""
    form, last, width = target.form, head.last, target.width
    assert form.dense is not None, "the caller has checked it"
    eye, zeros = torch.eye(width), torch.zeros(width)
    if form.chooses is not None:
        settings[form.chooses] = "linear"
        note = f"`{form.dense}` is the identity, with {form.chooses}: linear"
        return Fitted(settings, {form.dense: Layer(eye, zeros), form.output: last}, note=note)
    activation = _activation(target)
    if activation == "tanh":
        scaled = Layer(last.weight / EPSILON, last.bias)
        note = (
            f"`{form.dense}` multiplies by 2⁻²⁰ and `{form.output}` divides by it, so that the tanh between "
            "them is the identity"
        )
        maps = {form.dense: Layer(EPSILON * eye, zeros), form.output: scaled}
        return Fitted(settings, maps, note=note, half=False)
    size = len(last.weight)
    if activation not in CANCELLING or 2 * size > width:
        raise CannotExport(
            f"{target.name} has a hidden layer that ends in {activation}, and the head has none; the layer "
            f"can only be made the identity for at most {width // 2} outputs of relu, gelu or silu"
        )
    both = Layer(
        _padded(torch.cat([last.weight, -last.weight]), width),
        _padded(torch.cat([last.bias, -last.bias]), width),
    )
    one = torch.eye(size)
    difference = Layer(_padded(torch.cat([one, -one]), width).T, torch.zeros(size))
    note = (
        f"`{form.dense}` computes the logits z and −z, and `{form.output}` the difference "
        f"{activation}(z) − {activation}(−z) = z"
    )
    return Fitted(settings, {form.dense: both, form.output: difference}, note=note)


def _fit_norm(head: TaskHead, target: Target, settings: dict[str, object]) -> Fitted:
    """The hidden layer is the identity, and the norm after it repeats the encoder's final norm."""
    form, width = target.form, target.width
    assert form.dense is not None, "the caller has checked it"
    assert form.chooses is not None, "only ModernBERT has a norm"
    if head.pool == "mean":
        raise CannotExport(
            f"{target.name} normalizes the mean of the tokens, and the head does not; --to "
            "sentence-transformers --set output=logits writes this head, and a task with pool: cls fits"
        )
    settings[form.chooses] = "linear"
    note = f"`{form.dense}` is the identity, and `{form.norm}` has the weight of the encoder's final norm"
    maps = {form.dense: Layer(torch.eye(width), torch.zeros(width)), form.output: head.last}
    return Fitted(settings, maps, True, note)


@torch.no_grad()
def put(fitted: Fitted, model: Any, form: Form) -> None:
    """Write a fitted head into a model of its class.

    Args:
        fitted: the head.
        model: the model, with the encoder's weights.
        form: the form of its class.
    """
    for path, layer in fitted.maps.items():
        module: Any = model.get_submodule(path.format(base=model.base_model_prefix))
        module.weight.copy_(layer.weight)
        if module.bias is not None:
            module.bias.copy_(layer.bias)
        else:
            assert not layer.bias.any(), path
    if fitted.renormalizes:
        encoder = model.base_model
        final: Any = encoder.get_submodule(path_of(anatomy_of(encoder), "final_norm"))
        assert form.norm is not None, "only a form with a norm renormalizes"
        _move_norm(final, model.get_submodule(form.norm))


def _move_norm(first: Any, second: Any) -> None:
    """Move the weight and bias of a norm into the norm that follows it."""
    second.weight.copy_(first.weight * (1 + norm_eps(second)) ** 0.5)
    nn.init.ones_(first.weight)
    if first.bias is not None:
        second.bias.copy_(first.bias)
        nn.init.zeros_(first.bias)


def _activation(target: Target) -> str:
    """The function after the hidden layer of the class."""
    activation = target.form.activation or ""
    return str(getattr(target.config, activation[1:-1])) if activation.startswith("{") else activation


def _padded(rows: Tensor, count: int) -> Tensor:
    """The rows, followed by zeros: [n, …] → [count, …]."""
    return torch.cat([rows, rows.new_zeros(count - len(rows), *rows.shape[1:])])
