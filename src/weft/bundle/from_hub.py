"""Bundles on the Hugging Face hub: which files of a repository are a bundle's, and fetching these alone.

What comes from the hub is a stranger's. bundle.json is fetched first and says which tasks there are. Only
files whose names weft itself gives to the files of a bundle are fetched, by these names: nothing else of the
repository is read. Their sizes are compared with limits before, their hashes with bundle.json by whoever
reads them. They lie in the cache of huggingface_hub, from which they are loaded without the hub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weft.bundle.checksums import ENCODER, ENCODER_WEIGHTS, FILES, MANIFEST, SHARED_FILE, task_path
from weft.errors import WeftError, did_you_mean
from weft.tasks.checks import NAME
from weft.utils.hub import hub_problem, offline_if, progress_bars
from weft.utils.hub_repository import Repository, hub_error, log_in
from weft.utils.notes import is_quiet, print_note
from weft.utils.safe_json import LARGEST, read_json
from weft.utils.write_errors import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_BUNDLE = 50 * 2**30
"""The most bytes of a bundle that are fetched from the hub."""
VARIABLE = "WEFT_MAX_DOWNLOAD"
"""The environment variable that replaces `LARGEST_BUNDLE`."""
MOST_FILES = 10_000
"""The most files of a bundle that are fetched from the hub."""
AT_ONCE = 8
"""How many files are fetched at the same time."""
DOING = "cannot be loaded from the hub"
PICKLES = (".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth")
"""Endings of files that may run code as they are read. No bundle has one."""
_ENCODER_FILE = re.compile(
    rf"{ENCODER}/(?:[A-Za-z0-9_][A-Za-z0-9_-]{{0,99}}/)?"
    r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.(?:safetensors|json|txt|model|jinja)"
)


def is_bundle_file(path: str) -> bool:
    """Return whether a path in a repository is one that weft gives to a file of a bundle.

    Example:
        >>> [is_bundle_file(path) for path in ("tasks/rte.safetensors", "tasks/../x.safetensors", "run.py")]
        [True, False, False]
    """
    if path in (MANIFEST, SHARED_FILE):
        return True
    folder, _, name = path.partition("/")
    if folder == "tasks":
        return name.endswith(".safetensors") and NAME.fullmatch(name.removesuffix(".safetensors")) is not None
    return _ENCODER_FILE.fullmatch(path) is not None and ".." not in path


def fetch_bundle(where: Repository, tasks: Sequence[str] | None = None) -> Path:
    """Fetch a bundle from the hub, or take it from the cache; return its folder in the cache.

    Args:
        where: the repository.
        tasks: the names of the tasks whose files are fetched; None: all tasks.
    """
    problem = hub_problem()
    if problem is None:
        with _explained(where), progress_bars(not is_quiet()):
            return _from_hub(where, tasks)
    with offline_if(problem), _explained(where):
        return _from_cache(where, tasks, problem)


def _from_hub(where: Repository, tasks: Sequence[str] | None) -> Path:
    from huggingface_hub import HfApi, constants

    api = HfApi(endpoint=constants.ENDPOINT)
    try:
        info = api.model_info(where.id, revision=where.revision, files_metadata=True, timeout=30)
    except Exception as failed:  # of the network, or of the hub's answer
        try:  # as huggingface_hub does it: what was fetched before can be used
            folder = _from_cache(where, tasks, "")
        except WeftError:
            raise failed from None
        print_note(f"{hub_error(failed, where, DOING)}\n  the copy in the cache is used: {folder}")
        return folder
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    if MANIFEST not in sizes:
        raise WeftError(
            f"{where} is not a bundle of weft: it has no {MANIFEST}; to use it as an encoder, name it in a "
            "run file: encoder: " + where.id
        )
    _check_listing(where, sizes)
    _check_size(where, {MANIFEST: sizes[MANIFEST]}, LARGEST)
    # by the name of the revision, which the cache then remembers for later calls without the hub
    path = Path(_download(where.id, MANIFEST, where.revision))
    folder, commit = path.parent, path.parent.name
    files = _needed(where, path, tasks, [name for name in sizes if name.startswith(f"{ENCODER}/")])
    if missing := [name for name in files if name not in sizes and commit == info.sha]:
        raise WeftError(f"{where} is damaged: {missing[0]} is missing, though its {MANIFEST} lists it")
    wanted = {name: sizes.get(name) for name in files if not (folder / name).exists()}
    _check_size(where, wanted, _largest())
    if wanted:
        size = sum(number or 0 for number in wanted.values())
        print_note(f"fetching {len(wanted)} files of {where}, {megabytes(size)}, from the hub")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda name: _download(where.id, name, commit), wanted))
    return folder


def _from_cache(where: Repository, tasks: Sequence[str] | None, problem: str) -> Path:
    """Return the folder of a bundle that was fetched before; every file that is needed must be there.

    Args:
        where: the repository.
        tasks: the names of the tasks; None: all.
        problem: why the hub cannot be reached.
    """
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(where.id, MANIFEST, revision=where.revision)
    if not isinstance(path, str):
        raise WeftError(
            f"{where} holds no bundle: there is no such folder, it is not in the cache of Hugging Face, and "
            f"the hub cannot be reached ({problem})\n  check the spelling and the network, or pass the "
            "folder of a bundle"
        )
    folder = Path(path).parent
    here = [file.relative_to(folder).as_posix() for file in (folder / ENCODER).rglob("*") if file.is_file()]
    for name in _needed(where, Path(path), tasks, here):
        if not (folder / name).is_file():
            raise WeftError(
                f"{where}: {name} is not in the cache of Hugging Face, and the hub cannot be reached "
                f"({problem})\n  load it once with a network"
            )
    return folder


def _needed(
    where: Repository, path: Path, tasks: Sequence[str] | None, in_encoder: Iterable[str]
) -> list[str]:
    """The files of a bundle that are needed besides bundle.json, as bundle.json lists them.

    Args:
        where: the repository, for messages.
        path: its bundle.json; it is checked as far as it is used here, and as a whole by whoever reads it.
        tasks: the names of the tasks; None: all.
        in_encoder: the files that the repository has under `encoder`, for bundles of earlier versions, which
            do not list them.
    """
    manifest = read_json(path, "expected a bundle")
    names, listed, encoder = manifest.get("tasks"), manifest.get(FILES), manifest.get("encoder")
    if not (isinstance(names, list) and isinstance(listed, dict | None) and isinstance(encoder, dict)):
        raise WeftError(f"{where} is damaged: its {MANIFEST} has no list of tasks and files")
    if bad := [name for name in names if not (isinstance(name, str) and NAME.fullmatch(name))]:
        raise WeftError(
            f"{where}: {MANIFEST}: {str(bad[0])[:80]!r} is not the name of a task; it is not loaded"
        )
    if bad := [name for name in listed or () if not is_bundle_file(name)]:
        raise WeftError(
            f"{where}: {MANIFEST} lists {str(bad[0])[:80]!r}, which is not the name of a file of a bundle; "
            "nothing of it is loaded"
        )
    for name in tasks or ():
        if name not in names:
            raise WeftError(f"{where} has no task {name!r}; {did_you_mean(name, names)}")
    files = [SHARED_FILE, *(task_path(name) for name in (names if tasks is None else tasks))]
    if encoder.get("included"):
        inside = [name for name in listed or () if name.startswith(f"{ENCODER}/")]
        files += inside or [name for name in in_encoder if is_bundle_file(name)]
        if ENCODER_WEIGHTS not in files and not any(name.endswith(".safetensors") for name in files[1:]):
            raise WeftError(f"{where} is damaged: its encoder has no {ENCODER_WEIGHTS}")
    if len(files) > MOST_FILES:
        raise WeftError(f"{where} has {len(files):,} files; expected at most {MOST_FILES:,}")
    return list(dict.fromkeys(files))


def _check_listing(where: Repository, names: Iterable[str]) -> None:
    """Refuse a repository with pickles: what is read as one can run code."""
    if bad := [name for name in names if name.lower().endswith(PICKLES)]:
        raise WeftError(
            f"{where} holds {bad[0][:80]!r}, a pickle, which could run code; a bundle has safetensors and "
            "JSON only, and nothing of it is loaded\n  if you trust its author, ask for a repository without "
            "this file"
        )


def _check_size(where: Repository, sizes: Mapping[str, int | None], largest: int) -> None:
    total = 0
    for name, size in sizes.items():
        if size is not None and name.endswith(".json") and size > LARGEST:
            raise WeftError(f"{where}: {name} has {size:,} bytes; expected at most {LARGEST:,}")
        total += size or 0
    if total > largest:
        raise WeftError(
            f"{where} has {megabytes(total)}; at most {megabytes(largest)} are fetched\n  if you trust it, "
            f"set {VARIABLE} to a larger number of bytes"
        )


def _largest() -> int:
    try:
        return int(os.environ.get(VARIABLE, LARGEST_BUNDLE))
    except ValueError:
        return LARGEST_BUNDLE


def megabytes(size: int) -> str:
    """A number of bytes for readers."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"


def _download(name: str, file: str, revision: str) -> str:
    from huggingface_hub import constants, hf_hub_download

    return hf_hub_download(name, file, revision=revision, endpoint=constants.ENDPOINT)


@contextmanager
def _explained(where: Repository) -> Iterator[None]:
    """Inside, whatever the hub's client raises is a `WeftError`."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        yield
    except (WeftError, MemoryError):
        raise
    except RepositoryNotFoundError:
        raise WeftError(
            f"{where} holds no bundle: there is no such folder, and on the hub no such repository, or it is "
            f"private\n  check the spelling; for a private one log in: {log_in()}"
        ) from None
    except Exception as failed:
        if isinstance(failed, OSError) and failed.errno in FAILED:  # the disk is full
            raise
        raise hub_error(failed, where, DOING) from failed
