"""Odd and damaged requests for `weft predict`: files of every format, standard input, and options."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.areas.tables import odd_parquet, odd_table
from tests.fuzz.base import Base
from tests.fuzz.byte_damage import damaged_bytes, damaged_lines, reencoded
from tests.fuzz.case import Case
from tests.fuzz.value_damage import ODD_TEXTS, damaged_value, odd_value, to_bytes
from tests.support.every_kind import NAMES, rows_of_kind

SMALL_ODDS: tuple[tuple[str, ...], ...] = (
    *(("--digits", number) for number in ("0", "17", "-1", "x", "99999999999999999999")),
    *(("--format", name) for name in ("jsonl", "text", "csv", "tsv", "parquet", "conll", "squad", "x", "")),
    *(("--texts", columns) for columns in ("text", "a,b", "", ",", "a,b,c", "x")),
    *(("--id", column) for column in ("id", "text", "", "x")),
    ("--with-input",),
    ("--precision", "bf16"),
    ("--precision", "x"),
    ("--on-error", "x"),
)
ENDINGS = ("jsonl", "jsonl", "jsonl", "csv", "tsv", "txt", "parquet", "json", "conll", "data", "gz")


def build_request(draw: Random, base: Base, folder: Path) -> Case:
    """A call of `weft predict` on the model with every kind of task, or on that with three tasks."""
    kinds = draw.random() < 0.7
    names = NAMES if kinds else ("cat", "same", "count")
    task = draw.choice(names)
    arguments = ["predict", str(base.run("kinds" if kinds else "ended"))]
    match draw.randrange(10):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6:
            arguments += ["--task", task]
        case 7:
            arguments += ["--all"]
        case 8:
            arguments += [
                "--tasks",
                draw.choice([task, f"{task},{draw.choice(names)}", "", ",", f"{task},{task}", "x"]),
            ]
    stdin, inputs = None, ()
    if draw.random() < 0.1:
        arguments += _texts(draw)
    else:
        data, ending = _file(draw, task if kinds else "classify")
        if draw.random() < 0.3:
            stdin = data
            arguments.append("-")
        else:
            file = folder / f"rows.{ending}"
            file.write_bytes(data)
            inputs = (file,)
            arguments.append(file.name)
    skips = draw.random() < 0.5
    if skips:
        arguments += ["--on-error", "skip"]
    if draw.random() < 0.2:
        arguments += draw.choice(SMALL_ODDS)
    writes = draw.random() < 0.15
    if writes:
        arguments += ["--out", f"predictions.{draw.choice(['jsonl', 'csv', 'tsv', 'parquet', 'x'])}"]
    return Case(
        tuple(arguments),
        stdin,
        codes=(1, 2) if skips else (2,),
        inputs=inputs,
        json=None if writes else "lines",
    )


def _texts(draw: Random) -> list[str]:
    words: list[str] = []
    for _ in range(draw.randint(1, 3)):
        words += ["--text", draw.choice(ODD_TEXTS)]
        if draw.random() < 0.3:
            words += ["--text2", draw.choice(ODD_TEXTS)]
    # the system takes neither, so no user can type them
    return [word.replace("\0", " ").encode("utf-8", "replace").decode() for word in words]


def _file(draw: Random, kind: str) -> tuple[bytes, str]:
    """The bytes of a request file and the ending of its name."""
    ending = draw.choice(ENDINGS) if draw.random() < 0.5 else "jsonl"
    if draw.random() < 0.1:
        return odd_parquet(draw), "parquet"
    if ending in ("csv", "tsv"):
        data = odd_table(draw, "," if ending == "csv" else "\t")
    else:
        data = _lines(draw, kind)
    match draw.randrange(8):
        case 0:
            data = damaged_bytes(draw, data)
        case 1:
            data = damaged_lines(draw, data.decode("utf-8", "replace")).encode("utf-8", "replace")
        case 2 if draw.random() < 0.3:
            data = reencoded(draw, data)
    return data, ending


def _lines(draw: Random, kind: str) -> bytes:
    """Rows of JSON, some of them with other values, keys or types; or no JSON at all."""
    rows: list[Any] = rows_of_kind(kind, draw.randint(1, 4), draw.randint(1, 5))
    lines = []
    for row in rows:
        if draw.random() < 0.1:
            row = {**row, "task": draw.choice([kind, "x", None, 3, [kind]])}
        if draw.random() < 0.4:
            row = damaged_value(draw, row, 2, ("text", "task", "label", "text_a", "text_b", "id"))
        match draw.randrange(30):
            case 0:
                row = odd_value(draw)
            case 1:
                row = [draw.choice(ODD_TEXTS), draw.choice(ODD_TEXTS)]
            case 2:
                row = draw.choice(ODD_TEXTS)
        lines.append(_line(draw, row))
    return to_bytes("\n".join(lines) + draw.choice(["\n", "", "\n\n", "\r\n"]))


def _line(draw: Random, row: Any) -> str:
    text = json.dumps(row, ensure_ascii=draw.random() < 0.6)
    match draw.randrange(40):
        case 0:
            return text[: draw.randint(0, len(text))]
        case 1:
            return draw.choice(
                [
                    "",
                    "x",
                    "{",
                    "null",
                    "NaN",
                    "[" * 2000,
                    '{"a": 1, "a": 2}',
                    '{"text": 1e999}',
                    "\ufeff" + text,
                ]
            )
        case 2 if isinstance(row, dict) and row:
            # long, but far below what a request may be
            return json.dumps({**row, next(iter(row)): "the cat " * draw.choice([500, 5000])})
    return text
