"""Small files of every suite that the recipes use, a tiny encoder, and the recipes' runs made short."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.suite_rows import HUB, Row
from tests.support.tiny_run import save_encoder
from weft.experiments.cells import Cell, cells_of, trials_of, variants_of
from weft.experiments.grid import Grid
from weft.experiments.recipes import load_recipe

SUITES = ("glue", "superglue", "mrqa", "squad", "wnut17", "snli", "scitail", "swag", "cs224n")
REPEATED = 8
"""How often the few rows of `suite_rows` are repeated: halves and fractions must leave some."""


@dataclass(frozen=True)
class RecipeData:
    """Where the files are.

    Attributes:
        root: the folder of the data.
        encoder: a folder with a tiny encoder of four layers and its tokenizer.
    """

    root: Path
    encoder: Path

    @property
    def overrides(self) -> list[str]:
        """What makes a recipe use them."""
        return [f"tasks.root={self.root}", f"encoder={self.encoder}", "train.max_length=32"]


def write_recipe_data(folder: Path) -> RecipeData:
    """Write the files of all suites, with the hub's names, and the encoder."""
    root = folder / "data"
    for suite in SUITES:
        for task, splits in HUB[suite].items():
            inner = "" if task == suite else "squad" if task == "mrqa_squad" else task
            where = root / suite / inner
            where.mkdir(parents=True, exist_ok=True)
            for split, rows in splits.items():
                many = [row for number in range(REPEATED) for row in _copies(rows, number)]
                columns = {key: [row[key] for row in many] for key in many[0]}
                pq.write_table(pa.table(columns), where / f"{split}.parquet")
    return RecipeData(root, save_encoder(folder / "encoder", layers=4))


def _copies(rows: list[Row], number: int) -> list[Row]:
    """The rows with other numbers, where they have one."""
    counted = ("idx", "idx_paragraph", "idx_question", "idx_answer")
    return [
        {
            key: value + 100 * number if key in counted and isinstance(value, int) else value
            for key, value in row.items()
        }
        for row in deepcopy(rows)
    ]


def first_cells(name: str, scale: str, data: RecipeData) -> tuple[Grid, list[Cell]]:
    """A recipe on these files, and one cell of each variant: the first seed, the first tuned values."""
    grid = load_recipe(name, [f"scale={scale}", *data.overrides])
    return grid, [cell for cell in all_cells(grid) if not cell.trial and cell.seed == grid.seeds[0]]


def all_cells(grid: Grid) -> list[Cell]:
    """The cells of a grid; of tuned values the first ones are chosen."""
    chosen = {v.name: trials_of(grid, v)[0] for v in variants_of(grid)} if grid.tune else None
    return cells_of(grid, chosen)


def two_steps(cell: Cell) -> Cell:
    """The cell with two steps instead of all, and two that find ranks."""
    raw: dict[str, Any] = deepcopy(cell.raw)
    train = raw.setdefault("train", {})
    steps = min(2, train.get("steps", 2))
    for key in ("epochs", "epoch"):
        train.pop(key, None)
    train |= {"steps": steps, "batch_size": 8, "checkpoint_every": 0, "evaluate_rows": 4}
    train |= {"last_evaluation": "subset", "baselines": False}
    for key in ("evaluate_every", "measure_uncertainty"):
        if train.get(key):
            train[key] = 1
    method = raw.get("method")
    if isinstance(method, dict) and method.get("l0"):
        method["l0"] = {**method["l0"], "steps": 2}
    action = deepcopy(dict(cell.action))
    if "grow" in action:
        grow_train = action["grow"].setdefault("train", {})
        grow_train.pop("epochs", None)
        grow_train |= {"steps": min(2, grow_train.get("steps", 2)), "batch_size": 8, "evaluate_every": 0}
    return replace(cell, raw=raw, action=action)
