"""Figures of matplotlib: names and titles of any kind are shown as text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.support.outline import HOSTILE
from weft.analysis.difficulty import Difficulty
from weft.analysis.plots.difficulty import write_picture
from weft.analysis.plots.picture import plain, short

SVG = "{http://www.w3.org/2000/svg}"
FORMULAS = ("$x$", r"$\frac{$", "a_$b$^{")
"""Names that matplotlib would read as formulas; the last ones as wrong formulas."""


@pytest.mark.parametrize("name", [*HOSTILE, *FORMULAS])
def test_names_and_titles_do_nothing(tmp_path, name):
    write_picture({name: Difficulty(1.0, 0.5, 0.2, 0.1, 0.3)}, tmp_path / "a.svg", name)
    tree = ElementTree.parse(tmp_path / "a.svg")
    texts = ["".join(element.itertext()) for element in tree.iter(f"{SVG}text")]
    assert short(name) in texts
    assert plain(name) in texts
    assert not {element.tag for element in tree.iter()} & {f"{SVG}script", f"{SVG}image", f"{SVG}a"}
    assert tree.find(".//*[@id='owned']") is None


@pytest.mark.parametrize("name", [*HOSTILE, *FORMULAS])
def test_names_and_titles_in_a_png(tmp_path, name):
    write_picture({name: Difficulty(1.0, 0.5, 0.2, 0.1, 0.3)}, tmp_path / "a.png", name)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
