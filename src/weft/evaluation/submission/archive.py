"""Zip files that are the same bytes for the same content, written in one move and read with care."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from weft.data.readers.problem import Problem

DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every file in a zip: the first there is, for today's would make other bytes tomorrow."""
LARGEST = 64 * 2**20
"""Bytes of a file in a zip; the largest that is right, QQP's, has four million."""


def zipped(files: Mapping[str, str]) -> bytes:
    """The files as a zip, in their order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # the same on every system
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode(), compresslevel=6)
    return buffer.getvalue()


def unzipped(place: Path, wanted: Mapping[str, object]) -> tuple[dict[str, str], list[Problem]]:
    """The wanted files of a zip that can be read as text, and what is wrong with the zip.

    Args:
        place: the zip.
        wanted: the names of the files that it must have, and no others.
    """
    try:
        archive = zipfile.ZipFile(place)
    except (zipfile.BadZipFile, OSError) as wrong:
        told = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else "it is no zip file"
        return {}, [Problem(str(place), f"{told}; expected a zip of {len(wanted)} files")]
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    with archive:
        names = archive.namelist()
        for name in dict.fromkeys(names):
            if name not in wanted:
                inside = next((w for w in wanted if name.endswith(f"/{w}")), None)
                hint = f"; {inside} must not be in a folder" if inside else ""
                problems.append(Problem(f"{place}: {name}", f"the server knows no file of this name{hint}"))
            elif names.count(name) > 1:
                problems.append(
                    Problem(f"{place}: {name}", f"found {names.count(name)} of them; expected one")
                )
        for name in wanted:
            where = f"{place}: {name}"
            if name not in names:
                problems.append(Problem(where, "the file is missing"))
                continue
            try:
                if archive.getinfo(name).file_size > LARGEST:
                    problems.append(Problem(where, f"the file is larger than {LARGEST:,} bytes"))
                    continue
                texts[name] = archive.read(name).decode()
            except UnicodeDecodeError as wrong:
                problems.append(Problem(where, f"byte {wrong.start} is not UTF-8"))
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as wrong:
                problems.append(Problem(where, f"cannot be read from the zip: {wrong}"))
    return texts, problems
