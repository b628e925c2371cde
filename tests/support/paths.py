"""Where things are outside of the tests: the project itself, and real data beside it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The project."""

SHARED = Path(os.environ.get("WEFT_SHARED", ROOT.parent / "shared"))
"""Real data and numbers of the papers' authors, where they are."""
