"""What a run is made of: its parameters by owner, the machine and versions, and its run file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.reporting.page import Section, absent, code
from weft.reporting.pictures.scale import short_number
from weft.reporting.run_data import RunData, number, numbers_of
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import Html, join, tag

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""The bytes of a number in a safetensors file, by its type."""


def parameters_section(run: RunData, key: str) -> Section:
    """The parameter ledger: counts by owner from the log, and what the files of the bundle hold."""
    title = "Parameters"
    parts: list[object] = []
    logged = run.last("start").get("parameters")
    if isinstance(logged, dict):
        parts.append(_ledger(logged))
    stored = stored_parameters(run.folder / "bundle")
    if stored:
        rows = [
            [owner, part, Cell(short_number(count), count), Cell(f"{size / 1e6:.3f}", size)]
            for owner, part, count, size in stored
        ]
        total, size = sum(row[2] for row in stored), sum(row[3] for row in stored)
        notes = [f"{total:,} parameters in all, {size / 1e6:.2f} MB; frozen encoder weights are not stored."]
        columns = ("owner", "part", "parameters", "MB")
        parts.append(Table("What the bundle holds", columns, rows, texts=(1,), notes=notes).html())
    if not parts:
        how = join([code(f"weft show params {run.folder}"), " counts them"])
        return Section(key, title, absent("Parameters", how))
    return Section(key, title, join(parts))


def _ledger(logged: Mapping[str, Any]) -> Html:
    """The counts that `weft show params` prints, as the run has logged them."""
    encoder = number(logged.get("encoder"))
    counts = {"encoder": encoder, "added for all tasks or for groups": number(logged.get("shared"))}
    counts |= _per_task("added for", numbers_of(logged.get("per_task")))
    counts |= {"all that serves all tasks, without heads": number(logged.get("total"))}
    counts |= {"trained, without heads": number(logged.get("trained"))}
    counts |= _per_task("head of", numbers_of(logged.get("heads")))
    rows = [
        [name, f"{count:,.0f}", f"{100 * count / encoder:.3f}" if encoder > 0 else NONE]
        for name, count in counts.items()
        if math.isfinite(count)
    ]
    return Table("Ledger", ("part", "parameters", "% of the encoder"), rows, sortable=False).html()


def _per_task(what: str, counts: Mapping[str, float]) -> dict[str, float]:
    """One row per task; a single one if all counts are equal."""
    if len(counts) > 1 and len(set(counts.values())) == 1:
        return {f"{what} each of the {len(counts)} tasks": next(iter(counts.values()))}
    return {f"{what} task {name}": count for name, count in counts.items()}


def stored_parameters(bundle: Path) -> list[tuple[str, str, int, int]]:
    """The owner, the part, the number of parameters and the bytes of what a bundle's files hold.

    Only the headers of the files are read.
    """
    from safetensors import SafetensorError, safe_open

    shared = [("shared", bundle / "shared.safetensors")]
    tasks = [(f"task {path.stem}", path) for path in sorted((bundle / "tasks").glob("*.safetensors"))]
    found: list[tuple[str, str, int, int]] = []
    for owner, path in (*shared, *tasks):
        counts: dict[str, list[int]] = {}
        try:
            with safe_open(path, "np") as file:
                for name in file.keys():  # noqa: SIM118 - it is no mapping
                    tensor = file.get_slice(name)
                    count = 1
                    for length in tensor.get_shape():
                        count *= length
                    row = counts.setdefault(name.partition(".")[0], [0, 0])
                    row[0] += count
                    row[1] += count * BYTES.get(str(tensor.get_dtype()), 4)
        except (OSError, SafetensorError):  # a run without a bundle, or a damaged file
            continue
        found += [(owner, part, count, size) for part, (count, size) in counts.items()]
    return found


def environment_section(run: RunData, key: str) -> Section:
    """The machine, the versions and the engine."""
    title = "Environment"
    facts: dict[str, Any] = {}
    for event in ("start", "resume"):
        logged = run.last(event).get("environment")
        if isinstance(logged, dict):
            facts |= logged
    end = run.last("end")
    for name in ("engine", "engine_fallback", "examples_per_second", "seconds"):
        if name in end or name in run.metrics:
            facts[name] = run.metrics.get(name, end.get(name))
    processes = run.last("start").get("processes")
    if processes is not None:
        facts["processes"] = processes
    if not facts:
        why = "the log does not name the machine: an earlier version of weft made the run"
        return Section(key, title, absent(title, why))
    rows = [[name.replace("_", " "), str(value)] for name, value in facts.items() if value is not None]
    return Section(
        key, title, Table("Machine and versions", ("fact", "value"), rows, texts=(1,), sortable=False).html()
    )


def run_file_section(run: RunData, key: str) -> Section:
    """The run file with all defaults, as the run has written it."""
    body = join(
        [
            tag("p", "Every setting, defaults included: ", code(str(run.folder / "run.yaml")), "."),
            tag("pre", run.text, tabindex=0, role="group", aria_label="Run file"),
        ]
    )
    return Section(key, "Run file", body)
