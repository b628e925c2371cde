"""The captured passes that belong to a model: made when they are needed, dropped when they no longer hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.acceleration.compiled import is_compiled
from weft.errors import WeftError
from weft.inference.captured import CapturedModel, CaptureWrong, warn_eager
from weft.inference.logits import HostLogits, Reader
from weft.inference.precision import Precision
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model


class Captures:
    """What a model holds of its captured passes. A copy of the model starts without any.

    Attributes:
        enabled: whether inference captures passes by itself; set it to false to compare with eager ones.
        asked: the passes that `Model.capture` asked for, which all inference then uses; None: those that are
            made by themselves.
    """

    def __init__(self) -> None:
        self.enabled = True
        self.asked: CapturedModel | None = None
        self._own: dict[Precision, CapturedModel] = {}
        self._modules: list[nn.Module] = []
        self._addresses: list[int] = []
        self._refused = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Captures:
        """Graphs belong to the memory of one model."""
        return Captures()

    def __reduce__(self) -> tuple[Any, ...]:
        return Captures, ()

    def of(self, model: Model, precision: Precision, exact: bool = False) -> CapturedModel | None:
        """The captured passes of a model as it is now; None where it has to run eagerly.

        Args:
            model: the model that holds this.
            precision: of the passes, unless `Model.capture` asked for another.
            exact: whether the passes must have this precision, whatever `Model.capture` asked for. It is
                decided here and not by the caller, since another thread may call `Model.capture`.
        """
        if self.asked is None and (not self.enabled or self._refused or not can_capture(model)):
            return None
        with model.lock:  # threads share what is made here
            if self._modules and self._addresses != list(self._where()):
                self._renew(model)
            if self.asked is not None:
                if not exact or self.asked.precision == precision:
                    return self.asked
                if self.asked.compiled:
                    raise WeftError(
                        f"precision {precision!r}: the model is captured in {self.asked.precision} with "
                        "compiled=True; call model.release() first"
                    )
            if not self.enabled or self._refused or not can_capture(model):
                return None
            if precision not in self._own:
                if not self._modules:
                    self._look(model)
                self._own[precision] = CapturedModel(model, precision)
            return self._own[precision]

    def ask(self, model: Model, captured: CapturedModel) -> None:
        """From now on all inference uses these passes; the caller holds the model's lock."""
        self.asked = captured
        self._look(model)

    def _look(self, model: Model) -> None:
        self._modules = list(model.modules())
        self._addresses = list(self._where())

    def _renew(self, model: Model) -> None:
        """The parameters lie elsewhere, since the model was moved or they were replaced: drop all graphs."""
        asked = self.asked
        if asked is not None and asked.compiled:
            raise WeftError(
                "the model was moved or its weights were replaced while it was captured with compiled=True; "
                "call model.release() first, then change it and capture it again"
            )
        self.release()
        if asked is not None and next(model.parameters()).device.type == asked.device.type:
            self.ask(model, CapturedModel(model, asked.precision))

    def refuse(self, why: CaptureWrong | RuntimeError) -> None:
        """Run eagerly from now on, and say why."""
        self.release()
        self._refused = True  # until the user releases the passes
        warn_eager(str(why).strip().splitlines()[0])

    def release(self) -> None:
        """Drop all graphs; the model is as it was."""
        if self.asked is not None:
            self.asked.close()
        self.asked, self._own, self._modules, self._addresses = None, {}, [], []
        self._refused = False

    def check_plain(self) -> None:
        """An error if the model is captured with compiled=True: its weights are then not as they were."""
        if self.asked is not None and self.asked.compiled:
            raise WeftError(
                "the model is captured with compiled=True, and its weights are held in other forms; call "
                "model.release() before you save, copy, load or train it"
            )

    def _where(self) -> Iterator[int]:
        """Where the model's parameters and buffers lie."""
        for module in self._modules:
            tensors: Iterator[Tensor | None] = chain(module._parameters.values(), module._buffers.values())
            yield from (x.data_ptr() for x in tensors if x is not None)


def can_capture(model: Model) -> bool:
    """Whether a model's passes can run as CUDA graphs as they are now, by what is known before trying."""
    parameter = next(model.parameters())
    return (
        parameter.device.type == "cuda"
        and not model.method.separate
        and not model.is_bare
        and not is_compiled(model)
        # sharded parameters are gathered by all processes together
        and type(parameter.data) is torch.Tensor
    )


def run_batch(
    model: Model,
    captured: CapturedModel,
    inputs: Mapping[str, Tensor],
    examples: int | None = None,
    depth: int = 0,
    soon: int = 1,
    read: Reader | None = None,
) -> HostLogits:
    """The logits of a batch: captured where its shape is warm, eagerly where it is not or where that fails.

    Args:
        model: the model.
        captured: its captured passes.
        inputs: as in `CapturedModel.logits`.
        examples: as there.
        depth: as there.
        soon: how many batches of this shape the call has still to run; see `CapturedModel.is_warm`.
        read: as in `CapturedModel.logits`.
    """
    form = captured.form_of(inputs, examples, depth)
    if captured.works and captured.is_warm(form, soon):
        with model.lock:
            try:
                if captured.works:  # another thread may have closed it by now
                    return captured.logits(inputs, examples, depth, read)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                captured.leave_eager(form)
            except (CaptureWrong, RuntimeError) as why:
                captured.works = False
                model.captures.refuse(why)
    return captured.eager_logits(inputs, examples, depth, read)


def input_names(model: Model, splits: Iterable[Tokens] = ()) -> list[str]:
    """The inputs of every batch beside ids, mask and task: the same for all, so that shapes are few.

    Args:
        model: the model.
        splits: what the batches are of. A tokenizer may give segments that its encoder does not read.
    """
    types = model.body.takes_token_types or any(tokens.has_types for tokens in splits)
    several = any(task.apart or task.choices or KINDS[task.kind].windows for task in model.tasks)
    marks = any(task.marks for task in model.tasks)
    wanted = {"token_type_ids": types, "marks": marks, "example": several}
    return [name for name, here in wanted.items() if here]
