"""What a model wears while it trains, and takes off to be evaluated or saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import nn

from weft.encoder.weave import woven_of


class Garment(Protocol):
    """A change to how a model runs that leaves its weights and files alone."""

    def on(self) -> None:
        """Run so."""
        ...

    def remove(self) -> None:
        """Run as before."""
        ...


@runtime_checkable
class Suspends(Protocol):
    """A change that compiles, and can be made to run as it was written for a while."""

    def suspended(self) -> AbstractContextManager[None]:
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
        self.on()

    def on(self) -> None:
        """Run so."""
        for module, woven, _, forward in self._places:
            _put(module, woven, forward)

    def remove(self) -> None:
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


class Dress:
    """Several changes, put on one after the other and taken off in the opposite order.

    Args:
        garments: each on already, in their order.
    """

    def __init__(self, garments: Sequence[Garment] = ()) -> None:
        self.garments = list(garments)

    def on(self) -> None:
        """Put all on."""
        for garment in self.garments:
            garment.on()

    def remove(self) -> None:
        """Take all off."""
        for garment in reversed(self.garments):
            garment.remove()

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Inside, nothing is compiled; every other change stays on."""
        with ExitStack() as stack:
            for garment in self.garments:
                if isinstance(garment, Suspends):
                    stack.enter_context(garment.suspended())
            yield

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside, the model is as it is outside training."""
        self.remove()
        try:
            yield
        finally:
            self.on()
