"""Damaged and hostile zip files, for `weft submit --check`."""

from __future__ import annotations

import io
import warnings
import zipfile
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.base import Base
from tests.fuzz.byte_damage import damaged_bytes, damaged_lines, reencoded
from tests.fuzz.case import Case

NAMES = (
    *("../x.tsv", "/etc/x", "a/CoLA.tsv", "CoLA.tsv/", "", "cola.tsv", "\x1b[2J", "CON", "a" * 300),
    *("é.tsv",),
)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
BOMBS = (b"\n", b"\0", b"0\t1\n", b"\r", b"\xe2\x80\xa8", b'{"idx": 0, "label": true}\n', b"[", b"{}\n")
SMALL = 20_000
"""Larger files are mostly left out: their rows only cost time."""


@cache
def files_of(zip_file: Path) -> dict[str, bytes]:
    """The files of a sound submission."""
    with zipfile.ZipFile(zip_file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def build_zip(draw: Random, base: Base, folder: Path) -> Case:
    """A submission whose files, entries or bytes are damaged."""
    name = draw.choice(["glue", "superglue"])
    files = dict(files_of(base.submission(name)))
    if draw.random() < 0.9:
        files = {file: data for file, data in files.items() if len(data) < SMALL}
    for _ in range(draw.randint(1, 3)):
        file = draw.choice(sorted(files))
        match draw.randrange(7):
            case 0:
                files[draw.choice(NAMES)] = files.pop(file)
            case 1:
                files[file] = damaged_bytes(draw, files[file])
            case 2:
                files[file] = damaged_lines(draw, files[file].decode("utf-8", "replace")).encode(
                    "utf-8", "replace"
                )
            case 3:
                files[file] = reencoded(draw, files[file])
            case 4:
                # far below the limit of a file's size, and far above that of a right one
                files[file] = draw.choice(BOMBS) * draw.choice([1000, 200_000, 4_000_000])
            case 5:
                files[file] = draw.choice(
                    [b"", b"\xef\xbb\xbf" + files[file], files[file].replace(b"\n", b"\r\n")]
                )
            case 6:
                files[draw.choice(NAMES)] = files[file]
    data = _zipped(draw, files)
    if draw.random() < 0.4:
        data = damaged_bytes(draw, data)
    (folder / "x.zip").write_bytes(data)
    kind = ("--json",) if draw.random() < 0.3 else ()
    command = ("submit", "x.zip", "--to", name, "--check", *kind)
    return Case(command, inputs=(folder / "x.zip",), json="object" if kind else None)


def _zipped(draw: Random, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with (
        warnings.catch_warnings(action="ignore"),  # of a name that is there twice
        zipfile.ZipFile(buffer, "w", draw.choice(METHODS)) as archive,
    ):
        for name, data in files.items():
            times = 2 if draw.random() < 0.02 else 1
            for _ in range(times):
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, archive.compression)
    return buffer.getvalue()
