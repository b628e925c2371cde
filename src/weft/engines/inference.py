"""Inference as CUDA graphs: one for each shape of batch, with the blocks compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.engines.capture import Capturer
from weft.engines.compiled import Compiled, check_free
from weft.engines.dress import Dress, Garment
from weft.engines.frozen import FrozenMaps
from weft.engines.norms import RoundedNorms
from weft.engines.packed import fields_of, pack, views
from weft.errors import WeftError
from weft.model_threads import in_eval, in_turn

if TYPE_CHECKING:
    from weft.model import Model
    from weft.output import Output


@dataclass(eq=False)
class _Pass:
    """A captured forward pass: where its inputs are put, how it is run, and what it gives."""

    memory: Tensor
    run: Callable[[], None]
    output: Output


class CapturedModel:
    """Runs a model's forward pass as a captured graph, in eval mode and without gradients.

    Called as the model is, with tensors by name; each new shape is captured when it first comes, so that it
    pays where batches have few shapes. The model must not be trained, moved or called otherwise while this is
    in use: `close` gives it back. Threads that call it take turns by the model's lock; on a GPU they must use
    the same stream, since a pass of each shape has one place in memory.

    Args:
        model: any model but one of method `separate`, on a CUDA device; on a CPU it runs uncaptured.
        bf16: whether to run under autocast to bf16, its maps held in bf16 and its norms' results rounded, as
            in training.
        compiled: whether to compile the encoder's blocks.
    """

    def __init__(self, model: Model, bf16: bool = False, compiled: bool = True) -> None:
        if model.method.separate:
            raise WeftError(
                "CapturedModel: method 'separate' sends other numbers of rows through each task's encoder in "
                "every batch; expected any other method: call the model itself"
            )
        check_free(model)
        self.model = in_eval(model)
        self.device = next(model.parameters()).device
        self._bf16 = bf16
        self._trained = [p for p in model.parameters() if p.requires_grad]
        for parameter in self._trained:
            parameter.requires_grad_(False)
        garments: list[Garment] = [FrozenMaps(model), RoundedNorms(model)] if bf16 else []
        self._dress = Dress([*garments, *([Compiled(model, fused=False)] if compiled else [])])
        self._capture = Capturer(self.device)
        self._passes: dict[Any, _Pass] = {}
        self._closed = False

    @in_turn
    def __call__(self, examples: int | None = None, **inputs: Tensor) -> Output:
        """The output for these inputs, on the host or on the device; its logits are the caller's own.

        Hidden states and the rest are overwritten by the next call of the same shape.

        Args:
            examples: how many examples there are, where `example` is among the inputs.
            inputs: what `Model.forward` takes.
        """
        if self._closed:
            raise WeftError("CapturedModel: it is closed, and the model is given back: call the model itself")
        if "example" in inputs and examples is None:
            examples = int(inputs["example"].max()) + 1
        form = (fields_of(inputs), examples, self.model.is_bare)
        on_host = all(x.device.type == "cpu" for x in inputs.values())
        if form not in self._passes:
            self._passes[form] = self._begin(inputs, examples)
        one = self._passes[form]
        if on_host:
            one.memory.copy_(pack(inputs, self.device.type == "cuda"), non_blocking=True)
        else:
            for name, place in views(one.memory, form[0]).items():
                place.copy_(inputs[name], non_blocking=True)
        one.run()
        return replace(one.output, by_shape={shape: x.clone() for shape, x in one.output.by_shape.items()})

    @in_turn
    def close(self) -> None:
        """Give the model back as it was, but in eval mode."""
        self._passes, self._closed = {}, True
        self._dress.remove()
        for parameter in self._trained:
            parameter.requires_grad_(True)

    @contextmanager
    def _running(self) -> Iterator[None]:
        half = torch.autocast(self.device.type, torch.bfloat16) if self._bf16 else nullcontext()
        with torch.no_grad(), half:
            yield

    def _begin(self, inputs: dict[str, Tensor], examples: int | None) -> _Pass:
        memory = pack({name: x.cpu() for name, x in inputs.items()}, False).to(self.device, copy=True)
        batch = views(memory, fields_of(inputs))
        if "attention_mask" in batch:
            # the mask of a batch without padding is left out by Hugging Face, except in a graph
            batch["attention_mask"][0, -1] = 0
        kept: list[Output] = []

        def run() -> None:
            with self._running():
                kept[:] = [self.model.run(**batch, examples=examples)]

        captured = self._capture(run)
        if not kept:
            captured()
        return _Pass(memory, captured, kept[0]) if self.device.type == "cuda" else _Plain(memory, run, kept)


class _Plain(_Pass):
    """A pass that is not captured gives another output every time."""

    def __init__(self, memory: Tensor, run: Callable[[], None], kept: list[Output]) -> None:
        self.memory, self.run, self._kept = memory, run, kept

    @property
    def output(self) -> Output:  # type: ignore[override]
        """Of the last run."""
        return self._kept[0]
