"""Zip files with equal bytes for equal content, and careful reading of zip files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from weft.data.readers.problem import Problem

DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every file in a zip. It is fixed, because today's date would make different bytes tomorrow."""
LARGEST = 16 * 2**20
"""The most bytes of a file in a zip; the largest correct file, that of QQP, has four million."""
MOST = 1000
"""The most files in a zip; a correct one has about ten."""


def zipped(files: Mapping[str, str]) -> bytes:
    """Return the files as a zip, in their order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # the same on every system
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode(), compresslevel=6)
    return buffer.getvalue()


def unzipped(path: Path, expected: Mapping[str, object]) -> tuple[dict[str, str], list[Problem]]:
    """Return the readable files of a zip as text, and the problems of the zip.

    Args:
        path: the zip.
        expected: the names of the files that it must have, and no others.
    """
    try:
        archive = zipfile.ZipFile(path)
    except MemoryError:
        raise
    except Exception as wrong:  # a damaged list of files leads to many kinds of errors
        reason = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else "it is not a zip file"
        return {}, [Problem(str(path), f"{reason}; expected a zip of {len(expected)} files")]
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    with archive:
        names = archive.namelist()
        if len(names) > MOST:
            return {}, [Problem(str(path), f"found {len(names):,} files; expected {len(expected)}")]
        for name in dict.fromkeys(names):
            if name not in expected:
                inside = next((w for w in expected if name.endswith(f"/{w}")), None)
                hint = f"; {inside} must not be in a folder" if inside else ""
                problems.append(Problem(f"{path}: {name}", f"the server knows no file of this name{hint}"))
            elif names.count(name) > 1:
                problems.append(
                    Problem(f"{path}: {name}", f"found {names.count(name)} of them; expected one")
                )
        for name in expected:
            where = f"{path}: {name}"
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
            except MemoryError:
                raise
            except Exception as wrong:  # each decompressor raises its own
                problems.append(Problem(where, f"cannot be read from the zip: {wrong}"))
    return texts, problems
