"""The real compiler of torch, made quick enough for tests."""

from __future__ import annotations

import pytest

from weft.acceleration import compiled
from weft.acceleration.compiler_options import inductor_options

QUICK = {"aot_inductor.debug_compile": True}
"""The C++ compiler does not optimise: the code that is generated is the same, and is ready a third sooner."""


def compile_quickly(patch: pytest.MonkeyPatch, **more: object) -> None:
    """Compile with `QUICK` and these further options until the test ends."""
    patch.setattr(compiled, "inductor_options", lambda: {**inductor_options(), **QUICK, **more})
