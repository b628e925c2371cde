"""Damage to a folder: to the contents of its files, and to which files and links there are."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random

import yaml

from tests.fuzz.byte_damage import damaged_bytes, damaged_lines
from tests.fuzz.tensor_damage import damaged_tensors
from tests.fuzz.value_damage import as_json, damaged_value, odd_key, odd_value, to_bytes
from tests.fuzz.yaml_damage import damaged_yaml


def damage_folder(draw: Random, folder: Path, times: int = 2, keep: tuple[str, ...] = ()) -> None:
    """Damage one to `times` files of a folder, most often their contents.

    Args:
        draw: the random numbers.
        folder: the folder, which is changed.
        times: the most files.
        keep: patterns of files that stay as they are.
    """
    for _ in range(draw.randint(1, times)):
        files = _files(folder, keep)
        if not files:
            return
        file = draw.choice(files)
        if draw.random() < 0.75:
            file.write_bytes(damaged_contents(draw, file))
        else:
            _damage_entry(draw, folder, file)


def damaged_contents(draw: Random, file: Path) -> bytes:
    """Return the bytes of a file, damaged as fits its ending."""
    data = file.read_bytes()
    if draw.random() < 0.12:
        return draw.choice(
            [b"", b"\n", b"{}", b"[]", b"null", b"\0" * len(data), draw.randbytes(64), data * 2]
        )
    try:
        match file.suffix:
            case ".json":
                if draw.random() < 0.75:
                    return to_bytes(as_json(draw, damaged_value(draw, json.loads(data), 2)))
            case ".jsonl":
                return _damaged_json_lines(draw, data)
            case ".yaml":
                return damaged_yaml(draw, yaml.safe_load(data))
            case ".safetensors":
                return damaged_tensors(draw, data)
    except Exception:  # whatever the first damage has left
        pass
    return damaged_bytes(draw, data)


def _damaged_json_lines(draw: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    lines = text.splitlines()
    if not lines or draw.random() < 0.3:
        return damaged_lines(draw, text).encode("utf-8", "surrogateescape")
    at = draw.randrange(len(lines))
    lines[at] = json.dumps(damaged_value(draw, json.loads(lines[at]), 2))
    return to_bytes("\n".join(lines) + "\n")


def _files(folder: Path, keep: tuple[str, ...]) -> list[Path]:
    """The files of a folder in order of their names; links and pipes of earlier damage are none."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if not any(path.match(pattern) for pattern in keep)]


def _damage_entry(draw: Random, folder: Path, file: Path) -> None:
    """Remove, replace, link, move or copy a file."""
    match draw.randrange(9):
        case 0 | 1:
            file.unlink()
        case 2:
            file.unlink()
            file.mkdir()
        case 3:
            file.unlink()
            targets = [file.name, ".", "..", "/", "/dev/null", "nowhere", "/etc/hostname", str(folder)]
            file.symlink_to(draw.choice(targets))
        case 4:
            file.unlink()
            os.mkfifo(file)
        case 5:
            other = draw.choice(_files(folder, ()))
            if other != file:
                data = other.read_bytes()
                other.write_bytes(file.read_bytes())
                file.write_bytes(data)
        case 6:
            name = odd_key(draw, file.name).replace("/", "_").replace("\0", "_")[:100]
            if name.encode("utf-8", "replace").decode() == name and name not in ("", ".", ".."):
                file.rename(file.with_name(name))
        case 7:
            extra = file.with_name(
                draw.choice(["more.json", ".x.tmp", "a b.safetensors", "x.py", "..x", "tasks.lock"])
            )
            if not extra.exists():
                extra.write_bytes(to_bytes(str(odd_value(draw)))[:1000])
        case 8:
            link = file.parent / "linked"
            if not link.is_symlink():
                link.symlink_to(draw.choice([".", "..", "/", str(folder)]))


def copied(source: Path, target: Path) -> Path:
    """Copy a folder, with its links as links; return the copy."""
    shutil.copytree(source, target, symlinks=True)
    return target
