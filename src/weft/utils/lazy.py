"""Public names that import their module when first used, so that `import weft` costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection


def lazy(
    package: str, where: dict[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package.

    Args:
        package: the package's name.
        where: for each public name, the module that defines it.
        modules: submodules that are public names themselves.
    """

    def get(name: str) -> object:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(where[name]), name)

    def names() -> list[str]:
        return sorted([*where, *modules])

    return get, names
