"""The rooms of the project and the direction of imports between them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.layers import LAYERS
from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "weft"

FLAT = ["__init__", "__main__", "errors", "registry", "settings", "facade"]
"""The only modules directly under `weft`."""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its dotted name below `weft`, and its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts), path


def imports(path: Path, *, inside_functions: bool = True) -> Iterator[tuple[str, int]]:
    """What a file imports of weft, below `weft`, and in which line. Imports for types alone do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if for_types or (not inside_functions and isinstance(node, ast.FunctionDef)):
            skipped |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "weft":
                yield rest or "__init__", node.lineno


def room_of(module: str) -> str:
    """The room of a module, or of a name that `weft` itself gives."""
    room = module.partition(".")[0]
    return room if room in LAYERS else "__init__"


def test_every_module_has_a_room():
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    flat = {path.stem for path in SOURCE.glob("*.py")}
    assert flat == set(FLAT), "a new flat module: put it into a room, or name it in FLAT and say why"
    assert rooms | flat <= set(LAYERS), f"rooms without a place in LAYERS: {rooms | flat - set(LAYERS)}"


def test_imports_point_downwards():
    """This allows no cycle between rooms either. `facade` may import higher rooms inside its functions."""
    wrong = []
    for module, path in modules():
        room = room_of(module)
        for imported, line in imports(path, inside_functions=room != "facade"):
            if LAYERS.index(room_of(imported)) > LAYERS.index(room):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports weft.{imported}")
    assert not wrong, "\n".join(wrong)


def test_no_file_is_long():
    long = {
        str(path.relative_to(ROOT)): lines
        for _, path in modules()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 330
    }
    assert not long


@pytest.mark.parametrize("room", ["kernels", "training"])
def test_an_upward_import_would_be_found(room, tmp_path):
    """The check itself: an import inside a function counts, one for types does not."""
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from weft.cli import app\n"
        "def function():\n    from weft.growing.add import add_task\n"
    )
    found = list(imports(file))
    assert found == [("growing.add.add_task", 5)]
    assert LAYERS.index(room_of(found[0][0])) > LAYERS.index(room)
    assert list(imports(file, inside_functions=False)) == []
