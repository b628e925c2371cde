"""Numbers from the authors' code, which live beside the project and not in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from tests.support.paths import SHARED

ROOT = SHARED


def read_golden(folder: str, name: str) -> tuple[Any, Callable[[str], dict[str, Tensor]]]:
    """What a fixture's JSON says, and a function that gives its tensors under a prefix."""
    where = golden(folder)
    tensors = load_file(where / f"{name}.safetensors")

    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    return json.loads((where / f"{name}.json").read_text()), part


def golden(name: str) -> Path:
    """The folder of one set of fixtures; the test is skipped where it is absent."""
    folder = ROOT / "golden" / name
    if not folder.is_dir():
        pytest.skip(f"golden fixtures are not here: {folder}")
    return folder
