"""An export to ONNX with a task of every kind, made once for all tests of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.every_kind import NAMES, rows_of_kind
from tests.support.serving import save_every_kind
from weft import cli
from weft.utils.lock import locked

REQUESTS = [(name, row) for name in NAMES for row in rows_of_kind(name, 4, 5)]
"""Requests of every kind, as (task, row)."""


@pytest.fixture(scope="session")
def export(tmp_path_factory: Any, worker_id: str) -> Path:
    """A folder with `bundle` and its export, `onnx`, written by the command; processes share it."""
    root = tmp_path_factory.getbasetemp()
    root = root if worker_id == "master" else root.parent
    folder = root / "exported-every-kind"
    with locked(root / "exported.lock", folder, doing="a test", file=folder):
        if not (folder / "onnx").exists():
            bundle = save_every_kind(folder)
            assert cli.run(["export", str(bundle), "--to", "onnx", "--out", str(folder / "onnx")]) == 0
    return folder
