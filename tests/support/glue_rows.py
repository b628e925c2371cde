"""A few rows of the eight tasks of GLUE that papers average over, and a run file with them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from tests.support.tiny_run import save_encoder, sentence, write_rows

COLUMNS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
}
SPLITS = {"train": 12, "validation": 10}


def write_glue(root: Path) -> Path:
    """The files of the eight tasks, with MNLI's mismatched set, as the hub names them."""
    for task, columns in COLUMNS.items():
        labels = 3 if task == "mnli" else 2
        names = {"validation": "validation_matched"} if task == "mnli" else {}
        splits = {names.get(split, split): count for split, count in SPLITS.items()}
        if task == "mnli":
            splits["validation_mismatched"] = 8
        for split, count in splits.items():
            draw = random.Random(f"{task} {split}")
            rows: list[dict[str, Any]] = []
            for number in range(count):
                label: float = draw.random() * 5 if task == "stsb" else number % labels
                rows.append({**{column: sentence(draw) for column in columns}, "label": label, "idx": number})
            write_rows(root / "glue" / task / f"{split}.jsonl", rows)
    return root


def write_glue_run(folder: Path, train: dict[str, Any], **suite: Any) -> Path:
    """A run file with the eight tasks on a tiny encoder; returns its path."""
    save_encoder(folder / "encoder")
    write_glue(folder / "data")
    run = {
        "encoder": "encoder",
        "method": {"use": "lora", "rank": 2},
        "tasks": {"suite": "glue", "root": "data", **suite},
        "train": {"steps": 12, "batch_size": 4, "max_length": 24, "lr": 0.05, "baselines": False, **train},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run, sort_keys=False), encoding="utf-8")
    return path
