"""Objects that hold bound methods of modules, and can be pickled in any order of traversal.

A bound method is pickled as `getattr(module, "forward")`. Unpickled after the module has its attributes back,
that finds the woven `forward`, which would then call itself without end. Here the owner and the name are
kept, and the method is taken from the owner's class.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, NamedTuple


class _Bound(NamedTuple):
    """A bound method as it is pickled."""

    owner: Any
    name: str


class HoldsMethods:
    """A base for objects whose attributes may be methods of modules that have another one in its place."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: _packed(value) for name, value in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update((name, _unpacked(value)) for name, value in state.items())


def _packed(value: Any) -> Any:
    if not isinstance(value, MethodType):
        return value
    name = value.__name__
    # of a function that its class does not know by this name nothing better is known than pickle's own way
    return (
        _Bound(value.__self__, name) if getattr(type(value.__self__), name, None) == value.__func__ else value
    )


def _unpacked(value: Any) -> Any:
    return (
        MethodType(getattr(type(value.owner), value.name), value.owner)
        if isinstance(value, _Bound)
        else value
    )
