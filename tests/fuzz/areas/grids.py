"""Damaged grids, odd settings for them, and damaged files of packed records, for `weft compare --dry-run`."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.areas.run_files import known_keys, known_words, overrides
from tests.fuzz.base import Base
from tests.fuzz.byte_damage import damaged_bytes
from tests.fuzz.case import Case
from tests.fuzz.yaml_damage import damaged_yaml

GRID_OVERRIDES = (
    "seeds=2",
    "seeds=x",
    "scale=small",
    "average=glue9",
    "report=test",
    "axes={}",
    "claims=[1]",
)


def build_grid(draw: Random, base: Base, folder: Path) -> Case:
    """A damaged grid, or a sound one with damaged records."""
    file, records = folder / "grid.yaml", folder / "all.records"
    document = _grid(draw, base)
    sound = draw.random() < 0.25
    keys = (*known_keys(), *document, "from", "over", "rows", "source")
    file.write_bytes(_yaml(document) if sound else damaged_yaml(draw, document, keys))
    arguments = ["compare", "grid.yaml", "--out", "new", "--dry-run", "--no-estimate"]
    arguments += ["--json"] if draw.random() < 0.2 else []
    if draw.random() < 0.2:
        arguments += [draw.choice(GRID_OVERRIDES)]
    if draw.random() < 0.1:
        arguments += overrides(draw)
    if sound:
        content = _packed(draw, document)
        records.write_bytes(damaged_bytes(draw, content) if draw.random() < 0.5 else content)
        if draw.random() < 0.5:  # tables from the file alone, which trains nothing
            return Case(
                ("compare", "grid.yaml", "--out", "new", "--records", "all.records"), inputs=(file, records)
            )
        return Case((*arguments, "--unpack", "all.records"), inputs=(file, records))
    return Case(tuple(arguments), inputs=(file,))


def _grid(draw: Random, base: Base) -> dict[str, Any]:
    """A grid with most of the keys that a grid can have."""
    labelled = draw.random() < 0.5
    first = "plain, a" if labelled else "plain, full"
    return {
        "title": "a grid",
        "base": str(base.run_file),
        "seeds": draw.choice([2, [1, 5]]),
        "axes": {"method": {"a": "full", "b": {"use": "lora", "rank": 2}} if labelled else ["full", "lora"]},
        "variants": {
            "plain": {},
            "other": draw.choice([{"train.sampler": "uniform"}, {"method": draw.choice(known_words())}]),
            "more": draw.choice(
                [{"train.lr": 0.01}, {"start_from": "plain"}, {"assemble": ["plain", "other"]}]
            ),
        },
        "exclude": [draw.choice([{"variant": "more", "seed": 1}, {"variant": "other", "seed": 1}])],
        "baseline": first,
        "claims": [{"text": "so it is", "test": f"average('{first}') >= 50 margin 0.5"}],
        "published": {"source": "a paper", "rows": {first: {"cat": 71.2}}},
        **draw.choice([{}, {}, {"tune": {"over": {"train.lr": [0.001, 0.01]}, "seeds": 1}}]),
    }


def _yaml(document: dict[str, Any]) -> bytes:
    import yaml

    return yaml.safe_dump(document, sort_keys=False).encode()


def _statistics() -> str:
    """Row statistics with a score and no arrays."""
    import base64

    from weft.evaluation.rows.pack import pack
    from weft.evaluation.rows.run_rows import RunRows, SetRows, Units

    rows = SetRows(12, Units(12, None), "0" * 64, {"accuracy": 0.5}, {})
    return base64.b64encode(pack(RunRows({"cat": rows}))).decode()


ODD: tuple[Any, ...] = (None, 3, -1.5, "", "x", [], [1], {}, {"a": None}, {"cat": 3}, True)
"""Values that a field of a record may have in a file of a stranger."""


def _packed(draw: Random, document: dict[str, Any]) -> bytes:
    """A file of packed records, of runs of the grid; some fields of some records are odd."""
    from weft.experiments.records import CELLS, ENDING, Record

    methods = document["axes"]["method"]
    names = [f"{variant}, {method}" for variant in document["variants"] for method in methods]
    content = io.BytesIO()
    cells: dict[str, Any] = {}
    with zipfile.ZipFile(content, "w") as archive:
        for _ in range(draw.randint(1, 3)):
            identity = "".join(draw.choices("0123456789abcdef", k=64))
            record = Record(
                identity, metrics={"cat": {"accuracy": 0.5}}, rows={"cat": 12}, statistics=_statistics()
            )
            if draw.random() < 0.7:
                field = draw.choice([field.name for field in fields(Record) if field.name != "identity"])
                record = replace(record, **{field: draw.choice(ODD)})
            cells[f"{draw.choice(names)} · seed 1"] = draw.choice(
                [{"identity": identity}, {"identity": identity}, draw.choice(ODD)]
            )
            # a fixed time, so that the case is a function of its number
            archive.writestr(zipfile.ZipInfo(f"{identity}{ENDING}"), record.to_bytes())
        archive.writestr(zipfile.ZipInfo(CELLS), json.dumps({"format": 1, "cells": cells}))
    return content.getvalue()
