"""Names to classes, looked up only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from weft.errors import WeftError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of names, each standing for `module:attribute` or for the object itself.

    The module is imported at the first lookup, so a table may list everything that exists and
    importing weft still imports nothing.

    Args:
        what: what the names stand for, as error texts say it ("method", "kind").
        entries: name → "module:attribute", or the object itself.
    """

    def __init__(self, what: str, entries: Mapping[str, str | T]) -> None:
        self.what = what
        self._entries: dict[str, str | T] = dict(entries)

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise WeftError(f"{self.what} {name!r} does not exist; {did_you_mean(name, self._entries)}")
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = getattr(importlib.import_module(module), attribute)
            self._entries[name] = entry
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def register(self, name: str, entry: str | T) -> None:
        """Add `name`, as "module:attribute" or as the object; a name that is taken is refused."""
        if name in self._entries:
            raise WeftError(f"{self.what} {name!r} is registered already, as {self._entries[name]!r}")
        self._entries[name] = entry
