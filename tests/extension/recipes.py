"""The recipes of docs/extension.md, followed to the letter: its code blocks are files and registrations."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "extension.md"


def blocks(section: str) -> list[str]:
    """The Python code blocks of a section."""
    text = PAGE.read_text(encoding="utf-8")
    (body,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return re.findall(r"^```python\n(.*?)^```$", body, re.M | re.S)


def follow(section: str, *modules: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a section's files, then run its registration, the last block.

    Args:
        section: the heading.
        *modules: the name of each file, without .py, in the order of the blocks.
        folder: where the files go; they can be imported from there.
        monkeypatch: undoes that.
    """
    *files, registration = blocks(section)
    monkeypatch.syspath_prepend(folder)
    for module, code in zip(modules, files, strict=True):
        monkeypatch.delitem(sys.modules, module, raising=False)
        (folder / f"{module}.py").write_text(code, encoding="utf-8")
    exec(compile(registration, f"{PAGE.name}: {section}", "exec"), {})
