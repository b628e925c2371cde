"""The style sheets and the script of all pages."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def asset(name: str) -> str:
    """The text of a file in this folder."""
    return (resources.files(__name__) / name).read_text(encoding="utf-8").strip()
