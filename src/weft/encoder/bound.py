"""A base class for objects that hold bound methods of modules, so that they can be pickled in any order.

A bound method is pickled as `getattr(module, "forward")`. If the module's attributes are restored first, this
returns the woven `forward`, which would then call itself forever. This class stores the owner and the name
instead, and takes the method from the owner's class.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, NamedTuple


class _Bound(NamedTuple):
    """A bound method as it is pickled; `wrapped`: the function that the class's own one wraps."""

    owner: Any
    name: str
    wrapped: bool = False


class HoldsMethods:
    """A base for objects whose attributes may be bound methods that are replaced on their modules."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: _packed(value) for name, value in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update((name, _unpacked(value)) for name, value in state.items())


def _packed(value: Any) -> Any:
    if not isinstance(value, MethodType):
        return value
    name = value.__name__
    function = getattr(type(value.__self__), name, None)
    if function == value.__func__:
        return _Bound(value.__self__, name)
    if getattr(function, "__wrapped__", None) == value.__func__:
        return _Bound(value.__self__, name, wrapped=True)
    return value  # the class has no such function under this name: pickle's default has to do


def _unpacked(value: Any) -> Any:
    if not isinstance(value, _Bound):
        return value
    function = getattr(type(value.owner), value.name)
    return MethodType(function.__wrapped__ if value.wrapped else function, value.owner)
