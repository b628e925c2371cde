"""The captured passes of a model: made when they are needed, dropped when they become invalid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.acceleration.compiled import is_compiled
from weft.errors import WeftError
from weft.inference.captured import CapturedModel, CaptureWrong, warn_eager
from weft.inference.logits import HostLogits, Reader
from weft.inference.precision import Precision
from weft.inference.task_facts import TaskFacts

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model
    from weft.tasks.task import Task


class Captures:
    """The captured passes of one model. A copy of the model starts without any.

    Attributes:
        enabled: whether inference captures passes automatically; set it to false to compare with eager
            passes.
        requested: the passes that `Model.capture` requested, which all inference then uses; None: passes are
            captured automatically.
    """

    def __init__(self) -> None:
        self.enabled = True
        self.requested: CapturedModel | None = None
        self._automatic: dict[Precision, CapturedModel] = {}
        self._tables: list[Mapping[str, Tensor | None]] = []
        self._places: list[tuple[Mapping[str, Tensor | None], str]] = []
        self._addresses: list[int] = []
        self._refused = False
        self._facts: TaskFacts | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Captures:
        """A copy has no captured passes: graphs refer to the memory of one model."""
        return Captures()

    def __reduce__(self) -> tuple[Any, ...]:
        return Captures, ()

    def facts(self, tasks: Sequence[Task]) -> TaskFacts:
        """Return the facts about the model's tasks; they are kept while the model has the same tasks."""
        known = self._facts
        if known is None or known.tasks is not tasks:
            known = self._facts = TaskFacts(tasks)
        return known

    def of(self, model: Model, precision: Precision, exact: bool = False) -> CapturedModel | None:
        """Return the captured passes of a model in its current state; None if it must run eagerly.

        Args:
            model: the model that holds this object.
            precision: the precision of the passes, unless `Model.capture` requested a different one.
            exact: whether the passes must have this precision, whatever `Model.capture` requested. This is
                decided here and not by the caller, because a second thread may call `Model.capture`.
        """
        if self.requested is None and (not self.enabled or self._refused or not can_capture(model)):
            return None
        with model.lock:  # threads share the passes made here
            if self._places and self._addresses != self._current_addresses():
                self._renew(model)
            if self.requested is not None:
                if not exact or self.requested.precision == precision:
                    return self.requested
                if self.requested.compiled:
                    raise WeftError(
                        f"precision {precision!r}: the model is captured in {self.requested.precision} with "
                        "compiled=True; call model.release() first"
                    )
            if not self.enabled or self._refused or not can_capture(model):
                return None
            if precision not in self._automatic:
                if not self._places:
                    self._remember_addresses(model)
                self._automatic[precision] = CapturedModel(model, precision)
            return self._automatic[precision]

    def request(self, model: Model, captured: CapturedModel) -> None:
        """Use these passes for all inference from now on. The caller holds the model's lock."""
        self.requested = captured
        self._remember_addresses(model)

    def _remember_addresses(self, model: Model) -> None:
        self._tables = [x for module in model.modules() for x in (module._parameters, module._buffers)]
        self._places = [(named, name) for named in self._tables for name in named]
        self._addresses = self._current_addresses()

    def _renew(self, model: Model) -> None:
        """Drop all graphs: the model was moved or its parameters were replaced, so that addresses changed."""
        requested = self.requested
        if requested is not None and requested.compiled:
            raise WeftError(
                "the model was moved or its weights were replaced while it was captured with compiled=True; "
                "call model.release() first, then change it and capture it again"
            )
        self.release()
        if requested is not None and next(model.parameters()).device.type == requested.device.type:
            self.request(model, CapturedModel(model, requested.precision))

    def refuse(self, why: CaptureWrong | RuntimeError) -> None:
        """Run eagerly from now on, and warn with the reason."""
        self.release()
        self._refused = True  # until the user releases the passes
        warn_eager(str(why).strip().splitlines()[0])

    def release(self) -> None:
        """Drop all graphs and undo the patches of the model."""
        if self.requested is not None:
            self.requested.close()
        self.requested, self._automatic = None, {}
        self._tables, self._places, self._addresses = [], [], []
        self._refused = False

    def check_plain(self) -> None:
        """Raise an error if the model is captured with compiled=True: its weights are then patched."""
        if self.requested is not None and self.requested.compiled:
            raise WeftError(
                "the model is captured with compiled=True, and its weights are stored differently; call "
                "model.release() before you save, copy, load or train it"
            )

    def _current_addresses(self) -> list[int]:
        """The addresses of the model's parameters and buffers, after their number; 0 for what is None.

        Every pass begins with this, so it looks up each tensor by its name and walks through no module.
        """
        tensors = [named.get(name) for named, name in self._places]
        return [sum(map(len, self._tables)), *[0 if x is None else x.data_ptr() for x in tensors]]


def can_capture(model: Model) -> bool:
    """Whether a model's passes can run as CUDA graphs in its current state, as far as known before trying."""
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
    """Return the logits of a batch: captured if its shape is warm, eager if it is not or if the capture
    fails.

    Args:
        model: the model.
        captured: its captured passes.
        inputs: as in `CapturedModel.logits`.
        examples: as there.
        depth: as there.
        soon: how many batches of this shape the call still has to run; see `CapturedModel.is_warm`.
        read: as in `CapturedModel.logits`.
    """
    form = captured.form_of(inputs, examples, depth)
    if captured.works and captured.is_warm(form, soon):
        with model.lock:
            try:
                if captured.works:  # a second thread may have closed it in the meantime
                    return captured.logits(inputs, examples, depth, read)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                captured.leave_eager(form)
            except (CaptureWrong, RuntimeError) as why:
                captured.works = False
                model.captures.refuse(why)
    return captured.eager_logits(inputs, examples, depth, read)


def input_names(model: Model, splits: Iterable[Tokens] = ()) -> list[str]:
    """Return the inputs of every batch besides ids, mask and task: equal for all, so that shapes are few.

    Args:
        model: the model.
        splits: the splits of the batches. A tokenizer may give token types that its encoder does not read.
    """
    types = model.body.takes_token_types or any(tokens.has_types for tokens in splits)
    return [*(["token_type_ids"] if types else []), *model.captures.facts(model.tasks).inputs]
