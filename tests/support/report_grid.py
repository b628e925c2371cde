"""A comparison as `weft compare` leaves it, made without training: real identities, simulated records."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.support.simulated_runs import WORLDS, labelled
from tests.support.tiny_run import rows_of, save_encoder, write_rows
from weft.evaluation.rows import RunRows
from weft.evaluation.rows.pack import pack
from weft.experiments.compared import recorded
from weft.experiments.grid import Grid, load_grid
from weft.experiments.plan import Plan
from weft.experiments.records import Record, Records
from weft.experiments.results import Results, results_of
from weft.utils.files import write_json

STEPS = 1000


def write_many(folder: Path, variants: int, tasks: int, seeds: int, **more: Any) -> Path:
    """A grid with tiny data files; `more` are further keys of the grid."""
    save_encoder(folder / "encoder")
    names = [f"task{n}" for n in range(tasks)]
    for name in names:
        write_rows(folder / f"{name}.jsonl", rows_of("cat", 8, 1))
    files = {name: f"{name}.jsonl" for name in names}
    run = {
        "encoder": "encoder",
        "method": "lora",
        "tasks": {
            name: {"kind": "classify", "texts": ["text"], "label": "label", "labels": ["no", "yes"], **of}
            for name, of in ((n, {"train": files[n], "validation": files[n]}) for n in names)
        },
        "train": {"steps": STEPS, "batch_size": 4, "max_length": 16, "evaluate_every": 50},
    }
    grid = {
        "title": "A large grid",
        "about": "Simulated runs.",
        "run": run,
        "seeds": seeds,
        "variants": {f"variant {n}": {"train.lr": 1e-4 * (n + 1)} for n in range(variants)},
        "baseline": "variant 0",
        "claims": [{"text": "the second is better", "test": "average('variant 1') > average('variant 0')"}],
        "published": {"source": "A paper", "rows": {"variant 0": {"average": 80.0, "task0": 71.0}}},
        **more,
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(grid, sort_keys=False))
    return path


def simulated(
    grid: Grid, out: Path, rows: int = 60, evaluations: int = 20, encoder: int = 22_000_000
) -> Results:
    """Write a record of every run of a grid, and the tables of the comparison."""
    plan = Plan(grid, out)
    cells = list(plan.cells.values())
    variants = list(dict.fromkeys(planned.cell.variant for planned in cells))
    seeds = list(dict.fromkeys(planned.cell.seed for planned in cells))
    first = cells[0].run_file
    assert first is not None
    tasks = [task.name for task in first.tasks]
    draw = np.random.default_rng(7)
    levels = np.linspace(0.72, 0.84, len(variants))
    sets = {task: labelled(draw, WORLDS["balanced"], levels.tolist(), len(seeds), rows) for task in tasks}
    records = Records(out)
    for planned in cells:
        v, s = variants.index(planned.cell.variant), seeds.index(planned.cell.seed)
        run = RunRows({task: sets[task][v][s] for task in tasks})
        records.write(_record(planned.identity, planned.run_file.resolved, run, v, s, evaluations, encoder))
    compared = recorded(grid, out)
    results = results_of(compared, resamples=200)
    write_json(out / "tables.json", results.to_dict())
    return results


def _record(
    identity: str, settings: Any, run: RunRows, variant: int, seed: int, evaluations: int, encoder: int
) -> Record:
    noise = random.Random(f"{variant} {seed}")
    final = {task: dict(of.scores) for task, of in run.sets.items()}
    curve = []
    for place in range(1, evaluations + 1):
        grown = 1 - 0.5 ** (4 * place / evaluations * (1 + variant / 20))
        scores = {
            task: {name: max(0.0, value * grown + noise.gauss(0, 0.015)) for name, value in metrics.items()}
            for task, metrics in final.items()
        }
        curve.append({"step": STEPS * place // evaluations, "tasks": scores})
    trained = int(encoder * 10 ** (-3 + 3 * variant / 24))
    return Record(
        identity,
        settings=settings,
        metrics=final,
        rows={task: of.rows for task, of in run.sets.items()},
        statistics=base64.b64encode(pack(run)).decode(),
        curve=curve,
        parameters={
            "encoder": encoder,
            "trained": trained,
            "total_ratio": 1 + trained / encoder,
            "heads": 3000,
        },
        seconds={"train": 60 + 7 * variant + noise.random(), "all": 90.0 + 7 * variant},
        memory=int(1e9 + 3e7 * variant),
        machine={"device": "a simulated machine", "cores": 2, "torch": "2.0", "weft": "0.1.0"},
        step=STEPS,
    )


def large_comparison(folder: Path, variants: int = 25, tasks: int = 8, seeds: int = 5, **more: Any) -> Path:
    """The folder of a comparison of so many variants, tasks and seeds."""
    grid = load_grid(write_many(folder, variants, tasks, seeds, **more))
    out = folder / "out"
    simulated(grid, out)
    return out
