"""Reversible model patches: applied while a model trains, undone to evaluate or save it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import nn

from weft.encoder.weave import innermost_woven


class Patch(Protocol):
    """A change to how a model runs that leaves its weights and files alone."""

    def apply(self) -> None:
        """Make the change."""
        ...

    def undo(self) -> None:
        """Revert the change."""
        ...


@runtime_checkable
class CanSuspendCompilation(Protocol):
    """A patch that compiles, and whose compilation can be suspended for a while."""

    def uncompiled(self) -> AbstractContextManager[None]:
        """Inside, nothing runs compiled."""
        ...


class Forwards:
    """Replaces the `forward` of modules on the instance, as weaving does; woven adapters are replaced too.

    Args:
        places: the modules and their new `forward`.
    """

    def __init__(self, places: Iterable[tuple[nn.Module, Callable[..., Any]]]) -> None:
        woven_places = [(module, self._under(module), forward) for module, forward in places]
        self._places = [
            (module, woven, _now(module, woven), forward) for module, woven, forward in woven_places
        ]
        self.apply()

    def apply(self) -> None:
        """Set the new `forward`."""
        for module, woven, _, forward in self._places:
            _put(module, woven, forward)

    def undo(self) -> None:
        """Restore the previous `forward`."""
        for module, woven, before, _ in self._places:
            _put(module, woven, before)

    def _under(self, module: nn.Module) -> Any:
        """Return the object that is woven around a module and stays; None: nothing stays."""
        return None


class OwnForwards(Forwards):
    """Replaces the original computation of modules; the adapters that are woven around it stay."""

    def _under(self, module: nn.Module) -> Any:
        return innermost_woven(module)


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
    """Several patches, applied in order and undone in the opposite order.

    Args:
        patches: the patches, each already applied, in their order.
    """

    def __init__(self, patches: Sequence[Patch] = ()) -> None:
        self.patches = list(patches)

    def apply(self) -> None:
        """Apply all patches."""
        for patch in self.patches:
            patch.apply()

    def undo(self) -> None:
        """Undo all patches."""
        for patch in reversed(self.patches):
            patch.undo()

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Inside, nothing runs compiled; all other patches stay applied."""
        with ExitStack() as stack:
            for patch in self.patches:
                if isinstance(patch, CanSuspendCompilation):
                    stack.enter_context(patch.uncompiled())
            yield

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Inside, all patches are undone."""
        self.undo()
        try:
            yield
        finally:
            self.apply()
