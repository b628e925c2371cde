"""The token cache: entries of plain arrays, identified by a key and mapped into memory.

An entry is a folder `tokens/KEY` that holds, for R rows of n examples:

- ids.npy: int32, the token ids of all rows, concatenated
- offsets.npy: int64 [R + 1], the start of each row; the last is the number of all tokens
- full_lengths.npy: int32 [n], the length of each example's longest row before truncation or windowing
- first_rows.npy: int64 [n + 1], the first row of each example; only if some example has not exactly one row
- types.npy, marks.npy: int8 as ids.npy, the token types and the marks that contain a token (1, 2, both 3)
- starts.npy, ends.npy, words.npy: int32 as ids.npy, a token's characters in the context, and the index of
  the word it begins; −1 if there is none
- meta.json: sizes and settings, the CRC-32 of each array's file (`checksums`) and its own sha256

Arrays that a kind does not need are absent.

An entry is written under a temporary name, flushed to the disk and renamed in one step, so it is either
complete or absent. Opening it reads all of its files once and compares the checksums. A damaged entry counts
as absent: it is built again from the texts. Entries of earlier versions have no checksums; only their sizes
and the order of their offsets are checked.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.tokens.npy_pieces import save_pieces
from weft.errors import RunFailed, WeftError
from weft.utils.checksums import SEAL, file_crc32, is_sealed, sealed
from weft.utils.files import open_to_others, sync, sync_all
from weft.utils.temporary import create_folder, sweep_leftovers
from weft.utils.write_errors import FAILED, number_of

FORMAT = 2
"""Increased whenever the files of an entry, or their content for equal texts, change."""

Arrays = dict[str, NDArray[np.integer]]

_DTYPES = {
    "ids": np.int32,
    "offsets": np.int64,
    "full_lengths": np.int32,
    "first_rows": np.int64,
    "types": np.int8,
    "marks": np.int8,
    "starts": np.int32,
    "ends": np.int32,
    "words": np.int32,
}
_CHECKSUMS = "checksums"
_WRITING = ".writing-"
_ABANDONED = 24 * 3600.0


def open_entry(cache: Path, key: str) -> Arrays | None:
    """Return the arrays of an entry, mapped into memory; None if it is missing or damaged."""
    folder = cache / "tokens" / key
    try:
        if not (folder / "meta.json").is_file():  # reading from a pipe would wait for a writer
            return None
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        names = meta["arrays"]
        if not all((folder / f"{name}.npy").is_file() for name in names):
            return None
        if not _undamaged(folder, meta, names):
            return None
        # asarray: slices of a plain view take a tenth of the time of a memmap's
        arrays = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in names}
        rows, tokens, examples = meta["rows"], meta["tokens"], meta["examples"]
        sizes = {"offsets": rows + 1, "full_lengths": examples, "first_rows": examples + 1}
        sound = (
            meta["format"] == FORMAT
            and {"ids", "offsets", "full_lengths"} <= set(names)
            and all(a.shape == (sizes.get(n, tokens),) and a.dtype == _DTYPES[n] for n, a in arrays.items())
            and arrays["offsets"][0] == 0
            and arrays["offsets"][-1] == tokens
            and ("first_rows" in arrays or rows == examples)
            and (_CHECKSUMS in meta or _in_order(arrays))
        )
    except Exception:  # whatever damage leads to, the entry is built again
        return None
    return arrays if sound else None


def _undamaged(folder: Path, meta: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether an entry's files have the checksums of meta.json; True for an entry of an earlier version."""
    if _CHECKSUMS not in meta and SEAL not in meta:
        return True
    return is_sealed(meta) and all(
        file_crc32(folder / f"{name}.npy") == meta[_CHECKSUMS][name] for name in names
    )


def _in_order(arrays: Arrays) -> bool:
    """Whether every row and every example of an entry begins where it can."""
    offsets, first_rows = arrays["offsets"], arrays.get("first_rows")
    rows = len(offsets) - 1
    return bool((np.diff(offsets) >= 0).all()) and (
        first_rows is None
        or bool(first_rows[0] == 0 and first_rows[-1] == rows and (np.diff(first_rows) >= 1).all())
    )


def write_entry(
    cache: Path, key: str, arrays: Mapping[str, NDArray[np.integer]], about: Mapping[str, object]
) -> None:
    """Write an entry and rename it to its key; an existing valid entry is kept.

    Args:
        cache: the cache's folder.
        key: the entry's name.
        arrays: `ids`, `offsets`, `full_lengths` and others; see the module.
        about: further fields of meta.json.
    """
    write_pieces(cache, key, [arrays], lambda: arrays, about)


def write_pieces(
    cache: Path,
    key: str,
    pieces: Iterable[Mapping[str, NDArray[np.integer]]],
    names: Callable[[], Iterable[str]],
    about: Mapping[str, object],
) -> None:
    """Write an entry whose arrays come piece by piece, so that they are never in memory as a whole.

    Args:
        cache: the cache's folder.
        key: the entry's name.
        pieces: parts of the arrays, by name.
        names: called after the last piece: the arrays that the entry has; others are left out.
        about: further fields of meta.json.
    """
    try:
        parent = cache / "tokens"
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        sweep_leftovers(parent)
        folder = create_folder(parent / key)
        writing = folder.path
        try:
            sizes = save_pieces(writing, pieces, _DTYPES)
            kept = list(names())
            for name in set(sizes) - set(kept):
                (writing / f"{name}.npy").unlink()
            meta = {
                "format": FORMAT,
                "examples": sizes["full_lengths"],
                "rows": sizes["offsets"] - 1,
                "tokens": sizes["ids"],
                "arrays": sorted(kept),
                _CHECKSUMS: {name: file_crc32(writing / f"{name}.npy") for name in kept},
                **about,
            }
            (writing / "meta.json").write_text(json.dumps(sealed(meta), indent=1) + "\n", "utf-8")
            open_to_others(writing)  # a cache may be shared
            sync_all(writing)
            _move(writing, cache, key)
        finally:
            folder.remove()
    except OSError as failed:
        number = number_of(failed, cache)
        reason = failed.strerror or failed if number is None else os.strerror(number)
        raise (RunFailed if number in FAILED else WeftError)(
            f"the token cache {str(cache)!r} cannot be written: {reason}; "
            "set WEFT_CACHE to a different folder"
        ) from failed


@contextmanager
def written_once(cache: Path, key: str) -> Iterator[None]:
    """Inside, no other process is inside with the same entry, on systems that have `flock`.

    Whoever waited looks for the entry before it writes one. A process that ends, in whatever way, lets the
    next one in. Where the cache cannot be written, nobody waits: `write_entry` reports that.

    Args:
        cache: the cache's folder.
        key: the entry's name.
    """
    lock = cache / "tokens" / f"{_WRITING}{key}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        _wait_for(handle)
        yield
    finally:
        with suppress(OSError):
            lock.unlink()  # whoever has it open still waits for it; one that comes later finds the entry
        os.close(handle)


def _wait_for(handle: int) -> None:
    """Wait for the lock of an open file; it is released when the file is closed."""
    try:
        import fcntl
    except ImportError:
        return
    with suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_EX)


def _move(writing: Path, cache: Path, key: str) -> None:
    place = cache / "tokens" / key
    if _renamed(writing, place) or open_entry(cache, key) is not None:
        return  # or another process wrote it first
    # Only one process at a time replaces damaged entries: none moves away what another has just written. As
    # long as the damaged folder is there, no rename to its place succeeds.
    with _alone(place.parent):
        if open_entry(cache, key) is not None:
            return
        # it is also renamed in one step, so that no process sees it half deleted
        aside = Path(tempfile.mkdtemp(prefix=_WRITING, dir=place.parent))
        try:
            with suppress(FileNotFoundError):
                place.rename(aside / "damaged")
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if not _renamed(writing, place) and open_entry(cache, key) is None:
            raise WeftError(f"the cache entry {str(place)!r} cannot be replaced; remove it by hand")


def _renamed(writing: Path, place: Path) -> bool:
    """Rename a folder to its place; False if a file, or a folder with files, is there."""
    try:
        writing.rename(place)
        sync(place.parent)
    except OSError as failed:
        if failed.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Inside, no other process is inside with the same folder, on systems that have `flock`."""
    if os.name == "nt":  # a folder cannot be opened there
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _wait_for(handle)
        yield
    finally:
        os.close(handle)


def _sweep(parent: Path) -> None:
    """Remove temporary folders and locks that killed processes left more than a day ago."""
    for left in parent.glob(f"{_WRITING}*"):
        try:
            abandoned = time.time() - left.stat().st_mtime > _ABANDONED
        except OSError:
            continue
        if abandoned and left.is_file():
            left.unlink(missing_ok=True)
        elif abandoned:
            shutil.rmtree(left, ignore_errors=True)
