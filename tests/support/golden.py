"""Numbers from the authors' code, in tests/golden; its README says what made them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from tests.support.paths import GOLDEN


def read_golden(folder: str, name: str) -> tuple[Any, Callable[[str], dict[str, Tensor]]]:
    """What a fixture's JSON says, and a function that gives its tensors under a prefix."""
    where = golden(folder)
    tensors = load_file(where / f"{name}.safetensors")

    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    return json.loads((where / f"{name}.json").read_text()), part


def golden(name: str) -> Path:
    """The folder of one set of fixtures."""
    return GOLDEN / name
