"""Models and bundles with numbers that are none, and files that no process may have changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft

NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


@torch.no_grad()
def spoil(model: weft.Model, name: str, value: float = float("nan"), slot: int | None = None) -> weft.Model:
    """Set one number of a parameter, or of one slot of it."""
    parameter = dict(model.named_parameters())[name].data
    (parameter if slot is None else parameter[slot]).view(-1)[0] = value
    return model


def save_anyway(model: weft.Model, folder: Path, with_encoder: bool = False) -> Path:
    """Write a bundle as versions did that checked nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.bundle.save.check_weights", lambda *_: None)
        return model.save(folder, with_encoder)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
