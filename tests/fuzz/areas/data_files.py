"""Damaged data files of every format and kind of task, for the commands that read whole files."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.areas.tables import odd_parquet, odd_table
from tests.fuzz.base import Base
from tests.fuzz.byte_damage import damaged_bytes, damaged_lines, reencoded
from tests.fuzz.case import Case
from tests.fuzz.value_damage import as_json, damaged_value, odd_value, to_bytes
from tests.support.every_kind import NAMES, SETTINGS
from tests.support.malformed import FOLDER
from tests.support.malformed import Case as File
from tests.support.malformed_kinds import FINE, WRONG

ENDINGS = (
    *("csv", "tsv", "jsonl", "json", "conll", "parquet", "csv.gz", "jsonl.gz", "txt", "zip", "xlsx"),
    *("ndjson", "data"),
)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "encoding": (
        "utf-8",
        "latin-1",
        "utf-16",
        "cp1252",
        "klingon",
        "",
        7,
        "utf-8-sig",
        "base64",
        "rot13",
        "idna",
    ),
    "delimiter": (",", "\t", ";", "|", "", "ab", " ", "\n", "\0", 3),
    "quotes": (True, False, "yes", None),
    "header": (["a", "b"], [], "a", ["text", "text"], [1], None),
    "where": ({"label": "no"}, {"x": 1}, {"label": [1, "no"]}, "x", {}),
}
COMMANDS = (*("check",) * 5, *("new",) * 4, "train", "predict")


@cache
def files() -> tuple[File, ...]:
    """Files of every format and kind, sound and wrong in one way each."""
    sound = [file for file, _ in FINE.values()]
    # a file that was wrong before is mostly refused for that alone
    return tuple(file for file in (*sound * 12, *WRONG.values()) if file.data != FOLDER)


@cache
def data_of_kinds(base: Base) -> tuple[File, ...]:
    """Sound rows of every kind of task."""
    folder = base.kinds_file.parent
    return tuple(
        File(json.loads(json.dumps(SETTINGS[name])), "a.jsonl", (folder / f"{name}.train.jsonl").read_bytes())
        for name in NAMES
    )


@cache
def spreadsheets(base: Base) -> tuple[File, ...]:
    """Files as people have them, without a task: only `weft new` reads them."""
    return tuple(File({}, file.name, file.read_bytes()) for file in sorted(base.spreadsheets.iterdir()))


def build_data_file(draw: Random, base: Base, folder: Path) -> Case:
    """A data file, damaged in one of many ways, and a command that reads it."""
    file = draw.choice(
        draw.choice([files(), files(), data_of_kinds(base), data_of_kinds(base), spreadsheets(base)])
    )
    data = damaged_data(draw, file) if draw.random() < 0.9 else file.data
    name = file.name if draw.random() < 0.9 else f"a.{draw.choice(ENDINGS)}"
    (folder / name).write_bytes(data)
    command = draw.choice(COMMANDS) if file.task else "new"
    inputs = (folder / name,)
    if command == "new":
        words = draw.choice(
            [(), (), ("--kind", draw.choice(["classify", "tag", "span"])), ("--label", "label")]
        )
        return Case(("new", name, "--out", "new.yaml", *words), inputs=inputs)
    if command == "predict":
        words = ("--on-error", "skip") if draw.random() < 0.5 else ()
        bundle = str(base.run("kinds"))
        task = draw.choice(["classify", "tag", "span", "choose", "rank"])
        return Case(
            ("predict", bundle, name, "--task", task, *words), codes=(1, 2), inputs=inputs, json="lines"
        )
    _write_run(draw, base, folder, file, name)
    if command == "train":
        return Case(("train", "run.yaml", "--out", "out"), codes=(1, 2), inputs=inputs)
    return Case(("check", "run.yaml", "--no-estimate"), inputs=inputs)


def damaged_data(draw: Random, file: File) -> bytes:
    """Return the bytes of a file, damaged as fits its format; some files are new ones."""
    suffixes = Path(file.name).suffixes
    how = draw.randrange(15)
    if how <= 1:
        return damaged_bytes(draw, file.data, 2)
    if how <= 5 and suffixes[0] in (".jsonl", ".json"):
        return _damaged_json(draw, file.data)
    if how <= 5 and suffixes[0] == ".parquet":
        return odd_parquet(draw)
    if how <= 7:
        return reencoded(draw, file.data)
    if how == 8:
        return odd_parquet(draw)
    if how == 9:
        return odd_table(draw, draw.choice([",", "\t", ";"]))
    if how == 10:
        return _packed(draw, file)
    text = file.data.decode("utf-8", "surrogateescape")
    for _ in range(draw.choice([1, 1, 3])):
        text = damaged_lines(draw, text)
    return text.encode("utf-8", "surrogateescape")


def _damaged_json(draw: Random, data: bytes) -> bytes:
    """Change one value of a JSON document, or of one line of JSON."""
    packed = data[:2] == b"\x1f\x8b"
    try:
        text = (gzip.decompress(data) if packed else data).decode("utf-8-sig")
        lines = text.splitlines()
        at = draw.randrange(len(lines)) if lines else 0
        value = json.loads(lines[at])
    except (ValueError, OSError, EOFError, IndexError, RecursionError):
        return damaged_bytes(draw, data)
    lines[at] = as_json(draw, damaged_value(draw, value, draw.choice([1, 1, 3]))).replace("\n", " ")
    changed = to_bytes("\n".join(lines) + "\n")
    return gzip.compress(changed) if packed else changed


def _packed(draw: Random, file: File) -> bytes:
    """A compressed file, whole or not, or a small one that becomes large."""
    match draw.randrange(4):
        case 0:
            return damaged_bytes(draw, gzip.compress(file.data))
        case 1:
            return gzip.compress(gzip.compress(file.data))
        case 2:
            line = draw.choice([b"\n", b"a,b\n", b'{"text": "a", "label": "no"}\n', b"\0", b'"'])
            return gzip.compress(b"text,label\n" + line * draw.choice([10, 1000, 100_000]))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(file.name, file.data)
    return buffer.getvalue()


def _write_run(draw: Random, base: Base, folder: Path, file: File, name: str) -> None:
    """Write a run file whose one task reads the file."""
    source: dict[str, Any] = {"path": name, **file.source}
    if draw.random() < 0.15:
        key = draw.choice(list(OPTIONS))
        source = {**source, "options": {**source.get("options", {}), key: draw.choice(OPTIONS[key])}}
    if draw.random() < 0.05:
        source["columns"] = draw.choice(
            [{"text": "label"}, {"text": "a.b"}, {"text": ""}, {"x": "y"}, odd_value(draw)]
        )
    entry: Any = source if len(source) > 1 else name
    task = {**file.task, "train": entry, "validation": entry}
    settings = {"steps": 1, "batch_size": 2, "max_length": 24, "lr": 0.01, "baselines": draw.random() < 0.2}
    run = {"encoder": str(base.encoder), "method": "frozen", "tasks": {"bad": task}, "train": settings}
    (folder / "run.yaml").write_bytes(to_bytes(as_json(draw, run)))
