"""Partitions: the files of a corpus, and the files that their predictions are written to."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.errors import WeftError
from weft.utils.counted import counted
from weft.utils.notes import Tell, no_note
from weft.workflows.prediction_output import output_form
from weft.workflows.prediction_tables import TABLES

ERRORS = ".errors.jsonl"
"""The end of the name of the file with the rows that could not be read."""
SAME = (*(f".{form}" for form in TABLES), ".jsonl", ".ndjson", ".json")
"""The endings of inputs whose predictions are written in the same format, .gz aside."""


@dataclass(frozen=True)
class Partition:
    """One file of a corpus.

    Attributes:
        input: the file, as an absolute path.
        output: the file of its predictions.
        form: the format of that file: csv, tsv, parquet or jsonl.
        size: the bytes of the input; progress is measured by it.
    """

    input: Path
    output: Path
    form: str
    size: int = 0

    @property
    def errors(self) -> Path:
        """The file with the rows that could not be read."""
        return self.output.with_name(self.output.name + ERRORS)


def expand(files: Iterable[str | Path], out: Path, tell: Tell = no_note) -> list[Path]:
    """Return the files, with quoted patterns such as 'in/*.jsonl' as the files that they match.

    A shell replaces a pattern by itself, unless there are more files than a command line can hold. A
    recursive pattern also matches the predictions of an earlier call; they are left out.

    Args:
        files: files and patterns.
        out: the folder of the outputs.
        tell: called with notes.
    """
    found: list[Path] = []
    folder = Path(os.path.realpath(out))
    for file in files:
        path = Path(file).expanduser()
        if path.exists() or not glob.has_magic(str(path)):
            found.append(path)
            continue
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        if not matches:
            raise WeftError(f"{path}: no file matches this pattern")
        matches = [match for match in matches if match.is_file()]
        inputs = [match for match in matches if Path(os.path.realpath(match.parent)) != folder]
        if inputs and len(inputs) < len(matches):
            left = counted(len(matches) - len(inputs), "file")
            tell(f"{path} also matches {left} in {out}, the folder of the predictions: left out")
        found += inputs or matches
    return found


def partitions_of(files: Sequence[Path], out: Path) -> list[Partition]:
    """Return one partition per file, the largest first, so that no large file is left for the end.

    Args:
        files: the inputs.
        out: the folder of the outputs.

    Raises:
        WeftError: a file does not exist, two files have the same name, or an output would replace an input.
    """
    folder = Path(os.path.realpath(out))
    found: list[Partition] = []
    taken: dict[Path, Path] = {}
    inputs = {Path(os.path.realpath(file)) for file in files}
    for file in files:
        _check(file)
        path = Path(os.path.abspath(file))
        name, form = output_name(path.name)
        partition = Partition(path, folder / name, form, path.stat().st_size)
        for written in (partition.output, partition.errors):
            if written in inputs:
                raise WeftError(
                    f"--out {out}: the predictions of {file} would replace {written}, which is an input; "
                    "choose a different folder"
                )
            if (other := taken.setdefault(written, path)) != path:
                raise WeftError(
                    f"{other} and {path} would both be written to {written}; expected files with different "
                    "names: predict them into different folders"
                )
        found.append(partition)
    if len({partition.input for partition in found}) < len(found):
        seen: set[Path] = set()
        twice = next(p.input for p in found if p.input in seen or seen.add(p.input))  # type: ignore[func-returns-value]
        raise WeftError(f"{twice}: found twice; expected every file once")
    return sorted(found, key=lambda partition: -partition.size)


def output_name(name: str) -> tuple[str, str]:
    """Return the name and the format of the predictions of a file: as the input, or JSON lines.

    Example:
        >>> output_name("a.csv.gz"), output_name("b.txt")
        (('a.csv.gz', 'csv'), ('b.txt.jsonl', 'jsonl'))
    """
    plain = name.lower().removesuffix(".gz")
    if plain.endswith(".tab"):
        return name, "tsv"
    if plain.endswith(SAME):
        return name, output_form(Path(name))
    return f"{name[: len(plain)]}.jsonl", "jsonl"


def _check(file: Path) -> None:
    if str(file) == "-":
        raise WeftError(
            "found - (standard input) together with further files, --workers, --on or a folder as --out; "
            "expected files alone, or - alone with --out FILE"
        )
    if file.is_dir():
        raise WeftError(f"{file}: found a folder; expected files, such as {file}/*.jsonl")
    if not file.exists():
        raise WeftError(f"{file}: there is no such file")
    if not file.is_file():
        raise WeftError(f"{file}: found a pipe or a device; expected a file")
