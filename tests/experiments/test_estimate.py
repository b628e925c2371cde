"""The order of cells: long ones begin first, by finished cells or by a guess."""

from __future__ import annotations

from dataclasses import replace

from tests.support.tiny_grid import write_grid
from weft.experiments.estimate import expected_seconds
from weft.experiments.grid import load_grid
from weft.experiments.plan import Plan, Planned
from weft.experiments.records import Record

TEXT = """
axes: {method: [lora, full, separate]}
variants: {short: {}, long: {train.steps: 8}}
"""


def order(plan: Plan) -> list[str]:
    cells = sorted(plan.cells.values(), key=expected_seconds(plan), reverse=True)
    return [planned.cell.variant for planned in cells]


def test_one_encoder_per_task_first_then_by_steps(tmp_path):
    plan = Plan(load_grid(write_grid(tmp_path, TEXT, steps=2)), tmp_path / "out")
    assert order(plan) == [
        "long, separate",
        "long, lora",
        "long, full",
        "short, separate",
        "short, lora",
        "short, full",
    ]


def test_by_the_seconds_of_finished_cells(tmp_path):
    plan = Plan(load_grid(write_grid(tmp_path, TEXT, steps=2)), tmp_path / "out")
    for name, seconds in {"short, separate · seed 1": 1.0, "short, lora · seed 1": 30.0}.items():
        done: Planned = plan.cells[name]
        plan.cells[name] = replace(done, record=Record(done.identity, seconds={"all": seconds}))
    # lora 15 s per step and separate 0.5; full has not run, and is expected to take their mean
    assert order(plan) == [
        "long, lora",
        "long, full",
        "short, lora",
        "short, full",
        "long, separate",
        "short, separate",
    ]
