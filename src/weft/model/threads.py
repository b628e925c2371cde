"""One model used by several threads: what each thread has for itself, and when they take turns.

A forward pass writes only to its own route, which each thread has for itself (`weft.core.route.RouteHolder`),
so passes of several threads run side by side. Where an engine runs the model (compiled or captured),
a pass keeps tensors on the modules, and the threads take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from weft.errors import WeftError
from weft.utils.threads import ModelLock, PerThread

if TYPE_CHECKING:
    from weft.model.model import Model


F = TypeVar("F", bound=Callable[..., Any])


class AdaptersOff(PerThread):
    """Whether this thread runs a model without its adapters."""

    def __init__(self) -> None:
        self.on = False


class ModelThreads:
    """The part of a `Model`, which inherits this, that lets several threads use it.

    Attributes:
        lock: held by whoever runs the model under an engine; a copy of the model has its own.
        takes_turns: whether an engine runs the model, so that its passes run one at a time.
    """

    lock: ModelLock
    takes_turns: bool
    _off: AdaptersOff

    def _begin_threads(self) -> None:
        """Set this part up."""
        self.lock = ModelLock()
        self.takes_turns = False
        self._off = AdaptersOff()

    @property
    def is_bare(self) -> bool:
        """Whether the adapters are off in this thread."""
        return self._off.on

    @contextmanager
    def adapters_off(self) -> Iterator[None]:
        """Inside, the model runs the bare encoder: no adapter takes part, heads read what is left.

        This holds for the present thread; others run with adapters. Where the method trains the encoder
        itself, this is the encoder as it is now.
        """
        if cast("Model", self).method.separate:
            raise WeftError("method 'separate' has no adapters to take off: each task's encoder is its own")
        before, self._off.on = self._off.on, True
        try:
            yield
        finally:
            self._off.on = before

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: not the methods that an engine has compiled, which are this model's."""
        cast("Model", self).captures.check_plain()
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if not callable(getattr(type(self), name, None))}

    def turn(self) -> AbstractContextManager[object]:
        """What a pass runs inside: the model's lock where passes take turns, else nothing."""
        return self.lock if self.takes_turns else nullcontext()


def in_eval(model: Model) -> Model:
    """Put a model that is in training mode into eval mode, and leave it there; returns the model.

    All inference begins with this. The mode is never put back: another thread may be in the middle of a pass,
    and would suddenly run with dropout. Training calls `model.train()` in every step.
    """
    if model.training:
        # the model itself last: other threads look at its flag alone, and must find its parts in eval mode
        for part in model.children():
            part.eval()
        model.eval()
    return model


def in_turn(method: F) -> F:
    """A method of something that runs `self.model`, one call at a time by the model's lock."""

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.model.lock:
            return method(self, *args, **kwargs)

    return cast(F, locked)
