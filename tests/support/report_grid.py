"""A comparison as `weft compare` leaves it, made without training: real identities, simulated records."""

from __future__ import annotations

import base64
import math
import random
from collections.abc import Sequence
from dataclasses import replace
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
from weft.experiments.measures.of_weights import TIMES
from weft.experiments.plan import Plan
from weft.experiments.records import Record, Records
from weft.experiments.results import Results, results_of
from weft.utils.files import write_json

STEPS = 1000


def write_many(
    folder: Path, variants: int | Sequence[str], tasks: int | Sequence[str], seeds: int, **more: Any
) -> Path:
    """A grid with tiny data files, variants and tasks by number or by name; `more` are keys of the grid."""
    save_encoder(folder / "encoder")
    names = [f"task{n}" for n in range(tasks)] if isinstance(tasks, int) else list(tasks)
    rows = [f"variant {n}" for n in range(variants)] if isinstance(variants, int) else list(variants)
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
        "variants": {name: {"train.lr": 1e-4 * (n + 1)} for n, name in enumerate(rows)},
        "baseline": rows[0],
        "claims": [{"text": "the second is better", "test": f"average('{rows[1]}') > average('{rows[0]}')"}],
        "published": {"source": "A paper", "rows": {rows[0]: {"average": 80.0, names[0]: 71.0}}},
        **more,
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(grid, sort_keys=False))
    return path


def simulated(
    grid: Grid,
    out: Path,
    rows: int = 60,
    evaluations: int = 20,
    encoder: int = 22_000_000,
    over_time: bool = False,
) -> Results:
    """Write a record of every run of a grid, and the tables of the comparison.

    Args:
        grid: the grid.
        out: the folder of the comparison.
        rows: the rows of each task.
        evaluations: how often each run was evaluated.
        encoder: the parameters of the encoder.
        over_time: whether records have a trace and the similarities of tasks.
    """
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
        record = _record(planned.identity, planned.run_file.resolved, run, v, s, evaluations, encoder)
        if over_time:
            record = replace(record, trace=trace_of(tasks, v, s), measures=pairs_of(tasks, v, s))
        records.write(record)
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


def trace_of(tasks: Sequence[str], variant: int, seed: int, every: int = 10) -> dict[str, Any]:
    """Entropies that fall, and examples: of even variants those that MT-Uncertainty might choose.

    Odd variants have equal examples, whatever their seed.
    """
    noise = random.Random(f"trace {variant} {seed}")
    examples, entropy = [], []
    for step in range(every, STEPS + 1, every):
        left = {
            task: min(1.0, 0.15 + 0.7 * math.exp(-step * (n + 1) / STEPS) + noise.uniform(-0.05, 0.05))
            for n, task in enumerate(tasks)
        }
        wanted = {
            task: value**3 if variant % 2 == 0 else float(n + 1)
            for n, (task, value) in enumerate(left.items())
        }
        total = sum(wanted.values())
        examples.append(
            {"step": step, "examples": {task: round(1000 * x / total) for task, x in wanted.items()}}
        )
        if step % (5 * every) == 0:
            entropy.append({"step": step, "entropy": left})
    return {"examples": examples, "entropy": entropy}


def pairs_of(tasks: Sequence[str], variant: int, seed: int) -> dict[str, Any]:
    """Cosines of every two tasks, the larger the nearer their places, and of biases for even variants."""
    noise = random.Random(f"pairs {variant} {seed}")
    names = ["query_pairs", "ffn_in_bias_pairs"] if variant % 2 == 0 else ["query_pairs"]
    return {
        name: {
            f"{a}{TIMES}{b}": 0.9 * math.exp(-(i - j) / 2) - 0.1 + noise.uniform(-0.05, 0.05)
            for i, a in enumerate(tasks)
            for j, b in enumerate(tasks[:i])
        }
        for name in names
    }


def large_comparison(
    folder: Path,
    variants: int | Sequence[str] = 25,
    tasks: int | Sequence[str] = 8,
    seeds: int = 5,
    over_time: bool = False,
    **more: Any,
) -> Path:
    """The folder of a comparison of so many variants, tasks and seeds."""
    grid = load_grid(write_many(folder, variants, tasks, seeds, **more))
    out = folder / "out"
    simulated(grid, out, over_time=over_time)
    return out
