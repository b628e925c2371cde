"""Which columns a task reads, and what an example has in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import load_split
from weft.data.readers.columns import (
    column_values,
    input_columns,
    plain_text,
    read_columns,
    template_columns,
    text_columns,
)
from weft.data.readers.table import Table
from weft.errors import WeftError
from weft.inference.predict import read_request
from weft.tasks import Task

names = st.text("abcXYZ019_. -[]雨", min_size=1, max_size=8).filter(lambda n: n.strip() == n)
in_braces = st.text("abcXYZ019_. -雨", min_size=1, max_size=8).filter(lambda n: n.strip() == n)
literals = st.text("ab ?!{}.,:雨", max_size=6)


def table(columns):
    n = len(next(iter(columns.values())))
    return Table("x", columns, np.arange(1, n + 1))


@given(st.lists(st.tuples(literals, in_braces), min_size=1, max_size=4), literals, st.data())
def test_templates_are_filled(parts, end, data):
    """Any text around any columns, {{ for a brace; a column may be named "answer.text", or 0."""

    def braces(text):
        return text.replace("{", "{{").replace("}", "}}")

    template = "".join(braces(text) + "{" + name + "}" for text, name in parts) + braces(end)
    columns = {name: [data.draw(st.text("xyz {}", max_size=4)), 1.5, 7] for _, name in parts}
    task = Task("a", size=2, texts=(template,))
    assert template_columns(template) == tuple(name for _, name in parts)
    assert text_columns(task) == tuple(dict.fromkeys(name for _, name in parts))
    found = [given_.texts[0] for given_ in column_values(task, table(columns))]
    for at, text in enumerate(found):
        assert text == "".join(before + str(columns[name][at]) for before, name in parts) + end


@given(literals, in_braces, literals, st.text("xyz {}", max_size=9))
def test_a_text_sent_without_columns_fills_a_template_of_one_column(before, name, after, text):
    braces = [part.replace("{", "{{").replace("}", "}}") for part in (before, after)]
    template = braces[0] + "{" + name + "}" + braces[1]
    task = Task("a", size=2, texts=(template,))
    assert plain_text(template, text) == before + text + after
    assert next(column_values(task, table({name: [text]}))).texts == (plain_text(template, text),)
    assert plain_text(template + template, text) == text  # of two columns: joined by the sender
    assert plain_text(template, None) is None


@given(names)
def test_a_plain_name_is_a_column(name):
    assert template_columns(name) == ()
    task = Task("a", size=2, texts=(name,))
    assert text_columns(task) == (name,)
    assert [g.texts for g in column_values(task, table({name: ["x", None]}))] == [("x",), (None,)]


@pytest.mark.parametrize("value", [None, True, ["x"], {"a": 1}])
def test_a_template_without_a_value_is_told_as_such(value):
    rows = [{"q": "who?", "a": "he", "label": 0}, {"q": "who?", "a": value, "label": 0}]
    task = Task("a", size=2, texts=("{q} {a}",), files={"train": rows})
    assert [g.texts[0] for g in column_values(task, table({"q": ["who?"] * 2, "a": ["he", value]}))] == [
        "who? he",
        value,
    ]
    with pytest.raises(WeftError, match=r"row 2.*(the text is missing|expected a string)"):
        load_split(task, "train")


@pytest.mark.parametrize("text", ["{q", "q}", "{q} {", "{}", "{q!r}", "{q:>9}"])
def test_templates_that_are_none(text):
    with pytest.raises(WeftError, match="is not a template"):
        load_split(Task("a", size=2, texts=(text,), files={"train": [{"q": "x", "label": 0}]}), "train")


def test_every_column_is_asked_for_once():
    marks = ({"text": 0, "start": "s", "end": "e"}, {"text": 1, "start": "s", "end": "f"})
    task = Task("m", "marked", size=2, texts=("{a} {b}", "a"), marks=marks, group=("g", "b"))
    assert input_columns(task) == ("a", "b", "s", "e", "f", "g")
    assert read_columns(task) == ("a", "b", "s", "e", "f")
    task = Task("c", "choose", texts=("a",), choices=("x", "y"), id=("i",))
    assert input_columns(task) == ("a", "x", "y")


def test_choices_and_marks_of_each_example():
    marks = ({"text": 0, "start": "s", "end": "e"}, {"text": 0, "word": "w", "phrase": "p"})
    task = Task("m", "marked", size=2, texts=("a",), marks=marks)
    columns = {"a": ["x", "y"], "s": [0, 1], "e": [2, 3], "w": [4, 5], "p": ["q", "r"]}
    assert [g.marks for g in column_values(task, table(columns))] == [((0, 2), (4, "q")), ((1, 3), (5, "r"))]
    task = Task("c", "choose", texts=("a",), choices=("s", "e"))
    assert [g.choices for g in column_values(task, table(columns))] == [(0, 2), (1, 3)]


def test_a_request_needs_what_is_read_alone():
    """Columns that only say which examples are judged together are not asked for; texts among them are."""
    task = Task("m", size=2, texts=("p", "{q} {a}"), group=("q", "g"))
    found = read_request(task, {"p": "It rains.", "q": "Why?", "a": "So."}, "request 1")
    assert found.texts == ("It rains.", "Why? So.")
    with pytest.raises(WeftError, match="request 1: task 'm' takes a pair of texts; 'q' is missing"):
        read_request(task, {"p": "It rains.", "a": "So."}, "request 1")
