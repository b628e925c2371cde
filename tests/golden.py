"""Numbers from the authors' code, which live beside the project and not in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("WEFT_SHARED", Path(__file__).parents[2] / "shared"))


def golden(name: str) -> Path:
    """The folder of one set of fixtures; the test is skipped where it is absent."""
    folder = ROOT / "golden" / name
    if not folder.is_dir():
        pytest.skip(f"golden fixtures are not here: {folder}")
    return folder
