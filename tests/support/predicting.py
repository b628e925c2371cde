"""Files of the same rows in every format that `weft predict` reads."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FORMS = ("jsonl", "csv", "tsv", "parquet")


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows with equal columns; the ending of the name decides on the format."""
    form = path.suffix[1:]
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif form == "tsv":
        # quotes are plain characters, as in GLUE's files
        names = list(rows[0])
        lines = ["\t".join(cells) for cells in (names, *([str(row[n]) for n in names] for row in rows))]
        path.write_text("\n".join(lines) + "\n", "utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def as_standard_input(data: bytes) -> Any:
    """What `sys.stdin` is if these bytes are piped in."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")


def predict(capsys: Any, *arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    """Run `weft predict` in this process: the exit code, the predictions and what it reports."""
    from weft.cli import run

    capsys.readouterr()
    code = run(["predict", *map(str, arguments)])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return (
        code,
        [json.loads(line, parse_constant=_no_constant) for line in printed.out.splitlines()],
        printed.err,
    )


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def piped(monkeypatch: Any, data: bytes) -> str:
    """Pipe these bytes into the next command; return the argument that reads them."""
    monkeypatch.setattr(sys, "stdin", as_standard_input(data))
    return "-"
