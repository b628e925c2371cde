"""Lets several threads use one model: thread-local state, and a lock for passes under an engine.

A forward pass writes only to its route, which is thread-local (`weft.core.route.RouteHolder`), so passes of
several threads run concurrently. If an engine runs the model (compiled or captured), a pass stores tensors on
the modules, and the threads take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from weft.errors import WeftError
from weft.utils.forks import before_computing
from weft.utils.threads import PerThread, RenewedLock

if TYPE_CHECKING:
    from weft.model.model import Model


F = TypeVar("F", bound=Callable[..., Any])


class PassSettings(PerThread):
    """How this thread runs a model.

    Attributes:
        bare: whether it runs without its adapters.
        until: the number of blocks that run; None: all.
    """

    def __init__(self) -> None:
        self.bare = False
        self.until: int | None = None


class ModelThreads:
    """The part of a `Model`, which inherits this, that lets several threads use it.

    Attributes:
        lock: held while a thread runs the model under an engine; a copy of the model has a separate lock.
        takes_turns: whether an engine runs the model, so that its passes run one at a time.
    """

    lock: RenewedLock
    takes_turns: bool
    _passes: PassSettings

    def _begin_threads(self) -> None:
        """Initialize these attributes."""
        self.lock = RenewedLock()
        self.takes_turns = False
        self._passes = PassSettings()

    @property
    def is_bare(self) -> bool:
        """Whether the adapters are off in this thread."""
        return self._passes.bare

    @property
    def until(self) -> int | None:
        """The number of blocks that run in this thread; None: all."""
        return self._passes.until

    @contextmanager
    def running_until(self, blocks: int | None) -> Iterator[None]:
        """Inside, only the lowest blocks run, in this thread; heads read the output of the last of them.

        A final norm and a pooler still run. Adapters above the blocks (site `top`) do not.

        Args:
            blocks: the number of blocks, from 1 to all; None: all.
        """
        count = cast("Model", self).num_layers
        if blocks is not None and not 1 <= blocks <= count:
            raise WeftError(f"{blocks} blocks cannot run; expected 1 to {count}, the blocks of the encoder")
        before, self._passes.until = self._passes.until, None if blocks == count else blocks
        try:
            yield
        finally:
            self._passes.until = before

    @contextmanager
    def adapters_off(self) -> Iterator[None]:
        """Inside, the model runs the encoder without adapters; heads read its output.

        This applies to the current thread; other threads run with adapters. If the method trains the encoder
        itself, its current weights are used.
        """
        if cast("Model", self).method.separate:
            raise WeftError("method 'separate' has no adapters to turn off: each task has a separate encoder")
        before, self._passes.bare = self._passes.bare, True
        try:
            yield
        finally:
            self._passes.bare = before

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the methods that an engine has compiled: a copy must not call those of this model."""
        cast("Model", self).captures.check_plain()
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if not callable(getattr(type(self), name, None))}

    def turn(self) -> AbstractContextManager[object]:
        """Return the context of a pass: the model's lock if passes take turns, else a null context."""
        return self.lock if self.takes_turns else nullcontext()


def in_eval(model: Model) -> Model:
    """Put a model that is in training mode into eval mode, and leave it there; returns the model.

    All inference begins with this. The mode is never restored: another thread may be in the middle of a pass,
    and would suddenly run with dropout. Training calls `model.train()` in every step.
    """
    before_computing(model)
    if model.training:
        # the model itself last: other threads read only its flag, and its parts must be in eval mode by then
        for part in model.children():
            part.eval()
        model.eval()
    return model


def in_turn(method: F) -> F:
    """Decorate a method so that it holds the lock of `self.model` while it runs."""

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.model.lock:
            return method(self, *args, **kwargs)

    return cast(F, locked)
