"""Folders that are no bundle: what they are instead, and what to do with them. No torch is imported."""

from __future__ import annotations

import os
import re
from pathlib import Path

from weft.bundle.checksums import MANIFEST
from weft.errors import WeftError, words
from weft.utils.safe_json import parse_json

ONNX_FILES = ("model.onnx", "tasks.json")
"""The main files of an export to ONNX; see `weft.interop.onnx`."""

EXPORT_FILE = "weft.json"
"""What the exports to other libraries say about themselves."""


def is_onnx_export(folder: str | Path) -> bool:
    """Whether a folder was written by `weft export --to onnx`."""
    return all((Path(folder) / name).is_file() for name in ONNX_FILES)


def no_bundle(folder: Path) -> WeftError:
    """Return the error for a user who named this folder as a bundle."""
    graph, tasks = ONNX_FILES
    if not os.path.lexists(folder):
        return WeftError(
            f"{folder} holds no bundle: there is no such folder; expected a bundle, or the folder of a run"
        )
    if is_onnx_export(folder):
        return WeftError(
            f"{folder} is an export to ONNX, not a bundle: it can be predicted with and served "
            f"(weft predict {folder} FILE, weft serve {folder}); everything else needs the bundle that was "
            "exported"
        )
    if (folder / tasks).is_file():
        return WeftError(
            f"{folder} holds no bundle: it is an export to ONNX, and {graph} is missing; "
            "export the bundle again"
        )
    if (folder / "adapter_config.json").is_file():
        python = f"weft.interop.load_peft({str(folder)!r}).save(BUNDLE)"
        return WeftError(
            f"{folder} holds no bundle: it is a PEFT folder; make a bundle of it: "
            f"{words(f'weft import {folder} --out BUNDLE', python)}"
        )
    library = _library(folder)
    if library is not None:
        return WeftError(
            f"{folder} holds no bundle: it is an export to {library}, which weft does not read; "
            f"{folder / 'README.md'} shows how to load it, and weft needs the bundle that was exported"
        )
    if not folder.is_dir():
        return WeftError(
            f"{folder} holds no bundle: it is a file; expected the folder of a bundle or of a run"
        )
    return WeftError(f"{folder} holds no bundle ({MANIFEST} is missing); a run writes one when it ends")


def _library(folder: Path) -> str | None:
    """The format of an export; None if the folder is none."""
    try:
        library = parse_json((folder / EXPORT_FILE).read_bytes())["exported_to"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # a stranger may have written it, and it is shown
    return library if isinstance(library, str) and re.fullmatch(r"[a-z-]{1,40}", library) else None
