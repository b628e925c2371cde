"""The YAML files of the suites."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any

import yaml

_NO_SUITE = ("overlaps",)


def read_yaml(name: str) -> dict[str, Any]:
    """Read one of the YAML files beside this module; the result may be changed."""
    return deepcopy(_parsed(name))


@cache
def _parsed(name: str) -> dict[str, Any]:
    """Each file is parsed once: a grid of a hundred runs reads its suites a hundred times."""
    text = (resources.files("weft.suites") / f"{name}.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = yaml.safe_load(text)
    return table


def table_names() -> list[str]:
    """Return the names of the suites that have a YAML file."""
    names = (p.name for p in resources.files("weft.suites").iterdir())
    return sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml") and n[:-5] not in _NO_SUITE)
