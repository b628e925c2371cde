"""The suites' YAML files: what they hold, and that their keys are known ones."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

_NO_SUITE = ("overlaps",)


def read_yaml(name: str) -> dict[str, Any]:
    """One of the YAML files beside this module."""
    text = (resources.files("weft.suites") / f"{name}.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = yaml.safe_load(text)
    return table


def table_names() -> list[str]:
    """The suites that are read from files."""
    names = (p.name for p in resources.files("weft.suites").iterdir())
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml") and n[:-5] not in _NO_SUITE)
