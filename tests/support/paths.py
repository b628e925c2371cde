"""Where things are outside of the test files: the project, recorded numbers, real datasets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
"""The project."""

GOLDEN = ROOT / "tests" / "golden"
"""Numbers recorded from the authors' code."""

SHARED = Path(os.environ.get("WEFT_SHARED", ROOT.parent / "shared"))
"""A folder beside the project, with the real datasets in `data`."""


def real_data(*parts: str) -> Path:
    """A file or folder of the real datasets; a test that calls this is skipped where it is absent."""
    path = SHARED.joinpath("data", *parts)
    if not path.exists():
        where = "/".join(("data", *parts)) if parts else "folder data"
        pytest.skip(f"needs the real datasets: no {where} in ../shared, or in the folder WEFT_SHARED names")
    return path
