"""Which files belong to one task, and which file is which split, by their names.

`reviews_train.csv`, `reviews_dev.csv` and `reviews_test.csv` are one task; `train.tsv` and `dev.tsv` in the
folder `cola` are the task `cola`; any other file is a task of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.data.drafting.names import SPLITS
from weft.data.readers.formats import endings
from weft.errors import WeftError

TEXT_ENDINGS = (".txt", ".tab", ".iob", ".bio", ".iob2", ".ndjson", ".json", ".data")
"""Further endings of data files; the format of such a file is found by its content."""


@dataclass(frozen=True)
class FileGroup:
    """The files of one task.

    Attributes:
        name: the task's name.
        files: split → file.
        notes: what a user should know.
    """

    name: str
    files: Mapping[str, Path]
    notes: tuple[str, ...] = field(default=())


def group_files(paths: Sequence[Path], tasks: Mapping[str, Sequence[Path]] | None = None) -> list[FileGroup]:
    """Group files into tasks.

    Args:
        paths: files, or folders with data files.
        tasks: tasks by name with their files; a file without a split in its name is the first split that is
            still free: train, validation, test.
    """
    groups = [_named(name, files) for name, files in (tasks or {}).items()]
    files = [file for path in paths for file in (_of_folder(path) if path.is_dir() else [path])]
    found: dict[tuple[str, str], dict[str, Path]] = {}
    notes: dict[tuple[str, str], list[str]] = {}
    alone: list[tuple[str, Path]] = []
    for file in dict.fromkeys(files):
        rest, split = split_of(file)
        key = (str(file.parent), rest)
        if split is None:
            alone.append((rest, file))
        elif split in found.setdefault(key, {}):
            first = found[key][split].name
            notes.setdefault(key, []).append(f"{file.name} is not used: {split} is {first} already")
        else:
            found[key][split] = file
    _attach(found, notes)
    for (folder, rest), splits in found.items():
        name = (
            rest if rest and not re.fullmatch(r"[v\d._-]+|\d+-of-\d+", rest) else Path(folder).resolve().name
        )
        if "train" not in splits and len(splits) == 1:
            (split, file), *_ = splits.items()
            notes.setdefault((folder, rest), []).append(
                f"{file.name} is the only file: it is used for training"
            )
            splits = {"train": file}
        groups.append(FileGroup(name, splits, tuple(notes.get((folder, rest), ()))))
    groups += [FileGroup(rest, {"train": file}) for rest, file in alone]
    # in the order in which the files were given; named tasks first
    places = {file: number for number, file in enumerate(files)}
    groups.sort(key=lambda group: min(places.get(file, -1) for file in group.files.values()))
    for group in groups:
        if "train" not in group.files:
            names = ", ".join(file.name for file in group.files.values())
            raise WeftError(
                f"task {group.name!r} has no training file; found {names}; "
                f"name the files in the order train, validation, test: --task {group.name}=FILE,FILE"
            )
    return _with_names(groups)


def split_of(file: Path) -> tuple[str, str | None]:
    """Return a file's name without its ending and the word for its split, and the split; None without one.

    Example:
        >>> split_of(Path("reviews_dev.csv.gz")), split_of(Path("train-v1.1.json")), split_of(Path("a.csv"))
        (('reviews', 'validation'), ('v1.1', 'train'), ('a', None))
    """
    stem = stem_of(file)
    parts = re.split(r"([_.\- ]+)", stem)
    words = [index for index in range(0, len(parts), 2) if parts[index].lower() in SPLITS]
    # at the beginning or the end of the name: "the_test_results" is no test split
    ends = [index for index in words if index in (0, len(parts) - 1)] or [
        index for index in words if re.fullmatch(r"[\d._\-vof]+", "".join(parts[index + 1 :]))
    ]
    if not ends:
        return stem, None
    index = ends[-1]
    split = SPLITS[parts[index].lower()]
    rest = parts[:index] + parts[index + 1 :]
    return "".join(rest).strip("_.- "), split


def stem_of(file: Path) -> str:
    """Return a file's name without the ending of its format."""
    lower = file.name.lower()
    known = [*endings(), *TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS)]
    fitting = [ending for ending in known if lower.endswith(ending)]
    return file.name[: -len(max(fitting, key=len))] if fitting else file.stem


def _named(name: str, files: Sequence[Path]) -> FileGroup:
    files = [file for path in files for file in (_of_folder(path) if path.is_dir() else [path])]
    splits: dict[str, Path] = {}
    without: list[Path] = []
    for file in files:
        _, split = split_of(file)
        if split is None or split in splits:
            without.append(file)
        else:
            splits[split] = file
    free = [split for split in ("train", "validation", "test") if split not in splits]
    if len(without) > len(free):
        raise WeftError(
            f"--task {name}: found {len(files)} files; expected at most three: train, validation and test"
        )
    splits |= dict(zip(free, without, strict=False))
    if not splits:
        raise WeftError(f"--task {name}: expected a file: --task {name}=FILE")
    if "train" not in splits and len(splits) == 1:
        splits = {"train": next(iter(splits.values()))}
    return FileGroup(name, splits)


def _of_folder(folder: Path) -> list[Path]:
    """Return the data files of a folder; of its folders, if it has none itself."""
    files = _data_files(folder)
    if not files:
        folders = sorted(
            inner for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith(".")
        )
        files = [file for inner in folders for file in _data_files(inner)]
    if not files:
        raise WeftError(
            f"{folder}: found no data file in this folder; expected names that end in "
            f"{', '.join(sorted({*endings(), *TEXT_ENDINGS}))}"
        )
    return files


def _data_files(folder: Path) -> list[Path]:
    known = (*endings(), *TEXT_ENDINGS)
    about = ("readme", "license", "licence", "requirements")
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file()
        and file.name.lower().endswith(known)
        and not file.name.startswith(".")
        and not file.name.lower().startswith(about)
    )


def _attach(found: dict[tuple[str, str], dict[str, Path]], notes: dict[tuple[str, str], list[str]]) -> None:
    """Give files such as `validation_matched` to the one training file of their folder."""
    for folder in {folder for folder, _ in found}:
        keys = [key for key in found if key[0] == folder]
        training = [key for key in keys if "train" in found[key]]
        if len(training) != 1:
            continue
        main = training[0]
        for key in keys:
            if key == main:
                continue
            for split, file in found.pop(key).items():
                if split in found[main]:
                    first = f"{file.name} is not used: {split} is {found[main][split].name} already"
                    note = f"{first}; the key `also` adds a further set"
                    notes.setdefault(main, []).append(note)
                else:
                    found[main][split] = file


def _with_names(groups: Iterable[FileGroup]) -> list[FileGroup]:
    """Make the names valid and distinct."""
    named: list[FileGroup] = []
    taken: set[str] = set()
    for group in groups:
        base = re.sub(r"[^A-Za-z0-9_-]+", "_", group.name).strip("_-")[:90] or "task"
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        named.append(FileGroup(name, group.files, group.notes))
    return named
