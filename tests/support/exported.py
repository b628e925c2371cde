"""Folders written for transformers and sentence-transformers: the tables of their page, and logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import weft
from tests.support.paths import ROOT
from weft.interop.hf.head import scale_of

PAGES = [ROOT / "docs" / "exporting.md", ROOT / "docs" / "exporting-hf.md"]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def table(first: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this title, by the titles of the columns."""
    lines = iter([line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()])
    titles = next(cells for line in lines if (cells := _cells(line)) and cells[0] == first)
    next(lines)
    rows = []
    for line in lines:
        if not (cells := _cells(line)):
            break
        rows.append(dict(zip(titles, cells, strict=True)))
    return rows


def _cells(line: str) -> list[str]:
    if not line.startswith("|"):
        return []
    return [cell.strip() for cell in line.strip("|").split("|")]


def exact_methods(column: str = "hf, sentence-transformers") -> dict[str, bool]:
    """Whether the page calls each method exact in a format."""
    return {row["method"].strip("`"): row[column] == "exact" for row in table("method")}


def answers_of(model: weft.Model, name: str, rows: dict[str, Tensor]) -> Tensor:
    """The logits of one task in weft, with its temperature or range applied; [R, C] or [R, L, C]."""
    task = model.tasks[model.task_id(name)]
    inputs = {key: rows[key] for key in ("input_ids", "attention_mask")}
    ids = torch.full((len(inputs["input_ids"]),), model.task_id(name))
    with torch.no_grad():
        logits = model.run(**inputs, task=ids).by_shape[task.head]
    factor, term = scale_of(task)
    return logits * factor + term


def loaded(folder: Path, auto_class: str) -> Any:
    """The model of a folder, as a user of transformers loads it."""
    model, info = getattr(transformers, auto_class).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()
