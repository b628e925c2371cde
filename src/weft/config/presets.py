"""Presets: run files that ship with weft."""

from __future__ import annotations

from importlib import resources


def preset_names() -> list[str]:
    """The names of the run files that ship with weft."""
    files = resources.files("weft.config.preset_files").iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in files if p.name.endswith(".yaml"))


def preset_text(name: str) -> str:
    """The YAML text of a preset."""
    return (resources.files("weft.config.preset_files") / f"{name}.yaml").read_text(encoding="utf-8")
