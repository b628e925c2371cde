"""Tests are found where their subject is: the folders of tests mirror those of src/weft."""

from __future__ import annotations

import ast

import pytest

from tests.support.paths import GOLDEN, ROOT

TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "weft"
ELSEWHERE = {
    "benchmarks": "tests of the folder benchmarks beside src",
    "conformance": "properties that every method keeps on every family",
    "extension": "one toy per recipe of docs/extension.md",
    "fuzz": "damaged and hostile inputs for every command",
    "golden": "numbers recorded from the authors' code",
    "released": "files that released versions wrote",
    "support": "helpers",
}
"""The folders of tests that are no room of src/weft."""

FILES = sorted(TESTS.rglob("*.py"))


def test_every_folder_of_tests_is_a_package_of_weft():
    folders = {file.parent.relative_to(TESTS) for file in FILES} - {TESTS.relative_to(TESTS)}
    wrong = [
        f"tests/{folder}"
        for folder in folders
        if folder.parts[0] not in ELSEWHERE and not (SOURCE / folder / "__init__.py").is_file()
    ]
    assert sorted(wrong) == []


def test_every_room_has_tests():
    rooms = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    tested = {file.relative_to(TESTS).parts[0] for file in TESTS.rglob("test_*.py")}
    assert rooms <= tested, f"rooms without tests: {sorted(rooms - tested)}"


def test_helpers_are_in_support():
    """No test file imports from another one, and no helper is a test."""
    wrong = []
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            module = getattr(node, "module", None) or ""
            if module.startswith("tests.") and module.rpartition(".")[2].startswith("test_"):
                wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}: imports {module}")
    assert wrong == []
    assert list((TESTS / "support").glob("test_*.py")) == []


def test_no_test_file_is_long():
    lines = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert {name: count for name, count in lines.items() if count > 330} == {}


@pytest.mark.parametrize(
    "name", sorted(str(f.relative_to(GOLDEN).with_suffix("")) for f in GOLDEN.rglob("*.json"))
)
def test_every_golden_number_has_a_source_and_a_reader(name):
    folder, _, stem = name.partition("/")
    assert '"source":' in (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    readers = [file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py")]
    assert any(f'"{folder}"' in text and f'"{stem}' in text for text in readers)
