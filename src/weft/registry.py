"""Registries: tables from names to objects whose modules are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from weft.errors import WeftError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from names to objects, or to `module:attribute` strings.

    A module is imported at the first lookup. So a table may list everything, and importing weft stays cheap.

    Args:
        what: what an entry is, for error messages ("method", "kind").
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
        """Add an entry.

        Args:
            name: the name; it must not be registered already.
            entry: "module:attribute", or the object itself.
        """
        if name in self._entries:
            raise WeftError(f"{self.what} {name!r} is registered already, as {self._entries[name]!r}")
        self._entries[name] = entry
