"""The token cache: entries of plain arrays, found by a key and mapped into memory.

An entry is a folder `tokens/KEY` that holds, for n rows:

- ids.npy: int32, the token ids of all rows one after another
- offsets.npy: int64 [n + 1], where each row begins; the last is the number of all tokens
- types.npy: int8 as ids.npy, the token types; only where one of them is not 0
- full_lengths.npy: int32 [n], the rows' lengths before truncation
- meta.json: sizes and settings

It is written beside its place under another name and moved there in one step, so it is whole or not there.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError

FORMAT = 1
"""It rises when the files of an entry, or what they hold for equal texts, change."""

Arrays = dict[str, NDArray[np.integer]]

_DTYPES = {"ids": np.int32, "offsets": np.int64, "types": np.int8, "full_lengths": np.int32}
_WRITING = ".writing-"
_ABANDONED = 24 * 3600.0


def cache_folder(cache: str | Path | None = None) -> Path:
    """The cache's folder: the argument, else $WEFT_CACHE, else ~/.cache/weft."""
    chosen = cache or os.environ.get("WEFT_CACHE") or Path.home() / ".cache" / "weft"
    return Path(chosen).expanduser()


def open_entry(cache: Path, key: str) -> Arrays | None:
    """The arrays of an entry, mapped into memory; None if there is none or its sizes do not fit."""
    folder = cache / "tokens" / key
    try:
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        names = [name for name in _DTYPES if name != "types" or meta["types"]]
        # asarray: a plain view of the map, whose slices cost a tenth of a memmap's
        arrays = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in names}
        rows, tokens = meta["rows"], meta["tokens"]
        sizes = {"ids": tokens, "offsets": rows + 1, "types": tokens, "full_lengths": rows}
        sound = (
            meta["format"] == FORMAT
            and all(a.shape == (sizes[n],) and a.dtype == _DTYPES[n] for n, a in arrays.items())
            and arrays["offsets"][0] == 0
            and arrays["offsets"][-1] == tokens
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None
    return arrays if sound else None


def write_entry(
    cache: Path, key: str, arrays: Mapping[str, NDArray[np.integer]], about: Mapping[str, object]
) -> None:
    """Write an entry and move it into its place; one that is there already and sound stays.

    Args:
        cache: the cache's folder.
        key: the entry's name.
        arrays: `ids`, `offsets`, `full_lengths` and perhaps `types`, as the module says.
        about: more for meta.json.
    """
    try:
        parent = cache / "tokens"
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        writing = Path(tempfile.mkdtemp(prefix=_WRITING, dir=parent))
        try:
            for name, array in arrays.items():
                np.save(writing / f"{name}.npy", array.astype(_DTYPES[name], copy=False))
            meta = {
                "format": FORMAT,
                "rows": len(arrays["full_lengths"]),
                "tokens": len(arrays["ids"]),
                "types": "types" in arrays,
                **about,
            }
            (writing / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", "utf-8")
            writing.chmod(0o755)  # mkdtemp's 700 would lock others out of a shared cache
            _move(writing, cache, key)
        finally:
            shutil.rmtree(writing, ignore_errors=True)
    except OSError as failed:
        raise WeftError(
            f"the token cache {str(cache)!r} cannot be written: {failed.strerror or failed}; "
            "give another folder by setting WEFT_CACHE"
        ) from failed


def _move(writing: Path, cache: Path, key: str) -> None:
    place = cache / "tokens" / key
    for _ in range(3):
        try:
            # a folder cannot be moved onto one with files in it
            writing.rename(place)
            return
        except OSError:
            if not place.exists():
                raise
        if open_entry(cache, key) is not None:
            return  # another process was quicker
        # a damaged entry steps aside in one move too, so that nobody sees it half deleted
        aside = Path(tempfile.mkdtemp(prefix=_WRITING, dir=place.parent))
        try:
            place.rename(aside / "damaged")
        except FileNotFoundError:
            pass  # another process has just done the same
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    raise WeftError(f"the cache entry {str(place)!r} cannot be replaced; remove it by hand")


def _sweep(parent: Path) -> None:
    """Remove what killed processes left a day ago or earlier."""
    for left in parent.glob(f"{_WRITING}*"):
        try:
            abandoned = time.time() - left.stat().st_mtime > _ABANDONED
        except OSError:
            continue
        if abandoned:
            shutil.rmtree(left, ignore_errors=True)
