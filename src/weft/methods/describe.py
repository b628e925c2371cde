"""Describes the registered methods and their settings."""

from __future__ import annotations

from typing import Any

from weft.methods import METHODS


def describe_methods() -> dict[str, dict[str, Any]]:
    """Return per method: `about`, its first paragraph; `lr`, its learning rate; `settings` with defaults."""
    described: dict[str, dict[str, Any]] = {}
    for name in METHODS:
        method = METHODS[name]
        first = (method.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        fields = {
            key: {"default": field.get_default(call_default_factory=True), "about": field.description}
            for key, field in method.model_fields.items()
        }
        described[name] = {"about": " ".join(first.split()), "lr": method.default_lr, "settings": fields}
    return described
