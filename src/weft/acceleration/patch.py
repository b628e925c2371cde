"""What a model wears while it trains, and takes off to be evaluated or saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import nn

from weft.encoder.weave import woven_of


class Patch(Protocol):
    """A change to how a model runs that leaves its weights and files alone."""

    def apply(self) -> None:
        """Run so."""
        ...

    def undo(self) -> None:
        """Run as before."""
        ...


@runtime_checkable
class CanSuspendCompilation(Protocol):
    """A change that compiles, and can be made to run as it was written for a while."""

    def uncompiled(self) -> AbstractContextManager[None]:
        """Inside, nothing is compiled."""
        ...


class Forwards:
    """Modules with another `forward`, set on the instance as weaving does it; what is woven is replaced too.

    Args:
        places: the modules and what they compute from now on.
    """

    def __init__(self, places: Iterable[tuple[nn.Module, Callable[..., Any]]]) -> None:
        found = [(module, self._under(module), forward) for module, forward in places]
        self._places = [(module, woven, _now(module, woven), forward) for module, woven, forward in found]
        self.apply()

    def apply(self) -> None:
        """Run so."""
        for module, woven, _, forward in self._places:
            _put(module, woven, forward)

    def undo(self) -> None:
        """Run as before."""
        for module, woven, before, _ in self._places:
            _put(module, woven, before)

    def _under(self, module: nn.Module) -> Any:
        """What is woven around a module and stays; None: nothing does."""
        return None


class OwnForwards(Forwards):
    """Modules whose own computation is another; the adapters that are woven around it stay where they are."""

    def _under(self, module: nn.Module) -> Any:
        woven = woven_of(module)
        while woven is not None and getattr(woven.inner, "__self__", module) is not module:
            woven = woven.inner.__self__
        return woven


def _now(module: nn.Module, woven: Any) -> Any:
    return module.__dict__.get("forward") if woven is None else woven.inner


def _put(module: nn.Module, woven: Any, forward: Any) -> None:
    if woven is not None:
        woven.inner = forward
    elif forward is None:
        module.__dict__.pop("forward", None)
    else:
        module.__dict__["forward"] = forward


class PatchStack:
    """Several changes, put on one after the other and taken off in the opposite order.

    Args:
        patches: each on already, in their order.
    """

    def __init__(self, patches: Sequence[Patch] = ()) -> None:
        self.patches = list(patches)

    def apply(self) -> None:
        """Put all on."""
        for patch in self.patches:
            patch.apply()

    def undo(self) -> None:
        """Take all off."""
        for patch in reversed(self.patches):
            patch.undo()

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Inside, nothing is compiled; every other change stays on."""
        with ExitStack() as stack:
            for patch in self.patches:
                if isinstance(patch, CanSuspendCompilation):
                    stack.enter_context(patch.uncompiled())
            yield

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Inside, the model is as it is outside training."""
        self.undo()
        try:
            yield
        finally:
            self.apply()
