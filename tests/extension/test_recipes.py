"""The page of recipes is complete."""

from __future__ import annotations

import re

from tests.extension.recipes import PAGE, blocks
from tests.support.paths import ROOT

SECTIONS = (
    *("A method", "An encoder family", "A task kind", "A metric", "A sampler", "A data format"),
    *("A CLI command", "An engine", "An export format", "A training component", "A tracker"),
)


def test_every_section_is_linked_lists_its_files_and_has_an_example():
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert headings[: len(SECTIONS)] == list(SECTIONS)
    for section in SECTIONS:
        assert f"(#{section.lower().replace(' ', '-')})" in text
        assert blocks(section), section
        (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", text, re.M | re.S)
        assert "| file | change |" in body, section


def test_contributing_leads_there():
    assert "docs/extension.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_files_that_are_registered_in_exist():
    text = PAGE.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests)/[\w/]+(?:/__init__)?\.py)`", text):
        if "__init__" in path or path.startswith("tests/support"):
            assert (ROOT / path).is_file(), path
