"""Public names that import their module when first used, so that `import weft` costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable


def lazy(package: str, where: dict[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package whose names live in the modules of `where`."""

    def get(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(where[name]), name)

    def names() -> list[str]:
        return sorted(where)

    return get, names
