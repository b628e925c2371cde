"""Folders of runs as `weft train` leaves them, made without training, with any names of tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

TASKS = ("cola", "rte", "stsb")
METRIC = {"stsb": "pearson"}


def evaluation(step: int, tasks: Sequence[str], **more: Any) -> dict[str, Any]:
    """A line of an evaluation; scores rise with the step, and the first task with the smallest score."""
    scores = {
        task: {METRIC.get(task, "accuracy"): 0.5 + 0.05 * place + 0.3 * step / (step + 100), "f1": 0.4}
        for place, task in enumerate(tasks)
    }
    average = sum(next(iter(m.values())) for m in scores.values()) / len(scores)
    examples = {task: step + 10 * place for place, task in enumerate(tasks)}
    return {
        "event": "evaluation",
        "step": step,
        "tasks": scores,
        "average": average,
        "window": {"steps": 50, "examples": examples, "draws": examples},
        "usage": {"share": 0.5, "by_task": dict.fromkeys(tasks, 0.5), "longest": dict.fromkeys(tasks, 9)},
        **more,
    }


def conflict(tasks: Sequence[str], cosine: float, steps: int = 50) -> dict[str, Any]:
    """The field `conflict` of an evaluation: every pair has the same cosine."""
    pairs = [(a, b) for i, a in enumerate(tasks) for b in tasks[i + 1 :]]
    return {"steps": steps, "cosine": {f"{a}|{b}": cosine for a, b in pairs}, "conflicting": 0.25}


def events(tasks: Sequence[str], steps: int = 200) -> list[dict[str, Any]]:
    """The log of a run that logs everything."""
    lines: list[dict[str, Any]] = [
        {
            "event": "start",
            "steps": steps,
            "tasks": list(tasks),
            "processes": 1,
            "parameters": {
                "encoder": 1000,
                "shared": 20,
                "per_task": dict.fromkeys(tasks, 7),
                "heads": dict.fromkeys(tasks, 3),
                "total": 1020 + 7 * len(tasks),
                "trained": 20 + 7 * len(tasks),
            },
            "environment": {"device": "a machine", "torch": "2.9", "weft": "0.1.0"},
        }
    ]
    for step in range(50, steps + 1, 50):
        losses = {task: 1.0 / step + 0.1 * place for place, task in enumerate(tasks)}
        lines.append({"event": "step", "step": step, "loss": losses, "lr": 1e-4})
        entropy = dict.fromkeys(tasks, 0.9 - step / 1000)
        lines.append({"event": "uncertainty", "step": step, "entropy": entropy})
        lines.append(evaluation(step, tasks, conflict=conflict(tasks, 0.3 - step / 500)))
    lines.append({"event": "stop", "step": 150, "task": tasks[0], "at": 150, "best": 0.7, "best_step": 100})
    lines.append({"event": "end", "step": steps, "engine": "eager"})
    return lines


def metrics(tasks: Sequence[str], step: Any = 150) -> dict[str, Any]:
    """metrics.json of a run that has ended."""
    line = evaluation(200, tasks)
    weak = {task: dict.fromkeys(of, 0.3) for task, of in line["tasks"].items()}
    return {
        "step": step,
        "split": "validation",
        "tasks": line["tasks"],
        "rows": dict.fromkeys(tasks, 100),
        "of": dict.fromkeys(tasks, 100),
        "average": line["average"],
        "seconds": 12.0,
        "engine": "eager",
        "data_used": 0.5,
        "baselines": {"majority": weak},
    }


def write_run_folder(
    folder: Path,
    tasks: Sequence[str] = TASKS,
    lines: Sequence[dict[str, Any]] | None = None,
    ended: bool = True,
    **train: Any,
) -> Path:
    """Write run.yaml, log.jsonl and, if the run has ended, metrics.json."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "encoder": "minilm",
        "method": {"use": "lora", "rank": 8},
        "tasks": [{"name": task} for task in tasks],
        "train": {"steps": 200, "sampler": {"use": "uniform"}, "evaluate_rows": 100, **train},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    log = events(tasks) if lines is None else lines
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    if ended:
        (folder / "metrics.json").write_text(json.dumps(metrics(tasks)), encoding="utf-8")
    return folder


def error_report(tasks: Sequence[str], text: str = "a text", label: str = "yes") -> dict[str, Any]:
    """errors.json, with every field that docs/reference/errors.md names."""
    entry = {
        "task": "x",
        "set": None,
        "kind": "classify",
        "metrics": {"accuracy": 0.75},
        "rows": 4,
        "of": 4,
        "wrong": 1,
        "kinds": [{"kind": f"wrong {label}", "count": 1}, {"kind": "none of this", "count": 0}],
        "tables": [
            {
                "name": "labels",
                "title": f"Precision and recall by label, {label}",
                "columns": [
                    {"name": "label", "form": "text"},
                    {"name": "gold", "form": "count"},
                    {"name": "precision", "form": "share"},
                    {"name": "bias", "form": "number"},
                ],
                "rows": [[label, 2, 0.5, 0.25], ["no", 2, None, -1.5]],
                "left_out": 3,
            }
        ],
        "matrices": [
            {
                "name": "labels",
                "title": "Gold and predicted",
                "gold": [label, "no"],
                "predicted": [label, "no"],
                "counts": [[1, 1], [0, 2]],
            }
        ],
        "calibration": {
            "unit": "example",
            "count": 4,
            "nll": 0.41,
            "ece": 0.12,
            "bins": 15,
            "temperature": 1.5,
            "fitted_on": "validation",
            "reliability": [{"low": 0.8, "high": 0.867, "count": 4, "confidence": 0.83, "accuracy": 0.75}],
        },
        "examples_by": "probability of the wrong answer",
        "examples": [
            {
                "row": 17,
                "unit": "line",
                "id": None,
                "input": {"text": text},
                "gold": label,
                "predicted": ["no", "other"],
                "probability": 0.83,
                "error": 0.83,
                "kinds": ["wrong label"],
                "details": [],
            }
        ],
    }
    return {"format": 1, "weft": "0.1.0", "split": "validation", "tasks": dict.fromkeys(tasks, entry)}
