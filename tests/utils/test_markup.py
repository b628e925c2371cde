"""Markup: whatever a text holds, a parser reads the same text back, and nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.outline import HOSTILE, Outline
from weft.utils.markup import Html, escape, join, tag

PLAIN = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn"), exclude_characters="\u2028\u2029")
)


@given(PLAIN)
def test_a_parser_reads_the_text_back(text):
    tree = ElementTree.fromstring(tag("p", text, title=text))
    assert (tree.text or "") == text
    assert tree.get("title") == text
    assert len(tree) == 0


@given(st.text())
def test_any_text_makes_one_element(text):
    """Also with characters that XML forbids: they are spelled out."""
    tree = ElementTree.fromstring(tag("p", text, title=text))
    assert len(tree) == 0
    assert list(tree.attrib) == ["title"]
    assert not re.search("[\x00-\x08\x1b\u202a-\u202e\u2066-\u2069]", "".join(tree.itertext()))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_add_no_element(text):
    page = Outline(tag("div", tag("p", text, class_=text), text))
    assert [name for name, _ in page.elements] == ["div", "p"]
    assert list(page.elements[1][1]) == ["class"]


def test_only_markup_is_not_escaped():
    inside = tag("b", "1 < 2")
    assert tag("p", inside, " & ", "<i>") == "<p><b>1 &lt; 2</b> &amp; &lt;i&gt;</p>"
    # adding a text to markup gives a text again
    assert escape(inside + "<i>") == "&lt;b&gt;1 &amp;lt; 2&lt;/b&gt;&lt;i&gt;"
    assert isinstance(join([inside, "<"], between="<"), Html)
    assert join(["a", None, "b"], between="<") == "a&lt;b"


def test_attributes():
    assert tag("input", type="checkbox", checked=True, disabled=False, for_=None, data_series=3) == (
        '<input type="checkbox" checked data-series="3"/>'
    )
    assert tag("th", "x", scope="col", aria_sort="none") == '<th scope="col" aria-sort="none">x</th>'
    with pytest.raises(ValueError, match="is no name of an attribute"):
        tag("p", **{"x onload": "1"})


def test_direction_marks_stay_where_they_are_closed():
    isolated = "\u2068שלום\u2069"
    assert escape(isolated, direction=True) == isolated
    assert escape(isolated) == "\\u2068שלום\\u2069"
