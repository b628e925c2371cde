from __future__ import annotations

import pytest

import weft
from weft.data.readers.streamed import Row, RowStream
from weft.errors import WeftError
from weft.inference.requests import Asked, RequestReader

LABELS = ("no", "yes")
ONE = weft.Task("one", labels=LABELS)
PAIR = weft.Task("pair", labels=LABELS, texts=("a", "b"))
BOTH = weft.Task("both", labels=LABELS, texts=("{title}: {body}",))
CHOICE = weft.Task("choice", "choose", choices=("c1", "c2"))
TASKS = [ONE, PAIR, BOTH, CHOICE]


def read(value, tasks=TASKS, **asked):
    stream = RowStream("f", iter([Row(3, value)]))
    (request,) = RequestReader(tasks, Asked(**asked)).requests(stream)
    return request


@pytest.mark.parametrize(
    ("value", "asked", "expected"),
    [
        ({"task": "one", "text": "x"}, {}, (0, ("x",))),
        ({"task": "pair", "a": "x", "b": "y"}, {}, (1, ("x", "y"))),
        ({"task": "pair", "text_a": "x", "text_b": "é"}, {}, (1, ("x", "é"))),
        ({"task": "both", "title": "x", "body": "y"}, {}, (2, ("x: y",))),
        ({"title": "x", "body": "y"}, {"task": "both", "texts": ["body"]}, (2, ("y",))),
        ({"text": "x", "c1": "p", "c2": "q"}, {"task": "choice"}, (3, ("x", "p", "q"))),
        ({"t": "x", "c1": "p", "c2": "q"}, {"task": "choice", "texts": ["t"]}, (3, ("x", "p", "q"))),
        ({"r": "x", "s": "y", "a": "no"}, {"task": "pair", "texts": ["s", "r"]}, (1, ("y", "x"))),
        ({"task": "pair", "text": "x"}, {"task": "one"}, (0, ("x",))),
        ({"Review": "x"}, {"task": "one", "columns": {"text": "Review"}}, (0, ("x",))),
        ("x\ty", {"task": "pair"}, (1, ("x", "y"))),
        (["x", "y"], {"task": "pair"}, (1, ("x", "y"))),
        ("x\ty", {"task": "one"}, (0, ("x\ty",))),
    ],
)
def test_rows_become_inputs(value, asked, expected):
    request = read(value, **asked)
    assert request.wrong is None
    assert (request.inputs[0], request.inputs[1].texts) == expected


def test_the_only_task_needs_no_name():
    assert read({"text": "x"}, [ONE]).inputs[1].texts == ("x",)
    assert read("x", [ONE]).inputs[1].texts == ("x",)


@pytest.mark.parametrize(
    ("value", "asked", "message"),
    [
        ({"text": "x"}, {}, 'expected an object with "task", or --task NAME'),
        ({"task": "two", "text": "x"}, {}, "task 'two' does not exist"),
        ({"task": ["one"], "text": "x"}, {}, "does not exist"),
        ({"task": "one", "text": " "}, {}, "expected a text that is not empty"),
        ({"task": "one", "text": None}, {}, "the text is missing"),
        ({"text": "x"}, {"task": "one", "id": "key"}, "--id key: expected an object with 'key'"),
        ({"text": "x"}, {"task": "one", "texts": ["txt"]}, "--texts: 'txt' is missing; did you mean 'text'?"),
        ({"task": "pair", "text": "x"}, {"texts": ["text"]}, "task 'pair' takes a pair of texts"),
    ],
)
def test_a_row_that_cannot_be_read_says_why(value, asked, message):
    request = read(value, **asked)
    assert request.inputs is None
    assert message in request.wrong
    assert str(request.error).startswith("f, line 3: ")


def test_what_is_kept_of_a_bad_row():
    request = read({"key": 5, "task": "one"}, id="key", with_input=True)
    assert request.kept == {"id": 5, "input": {"key": 5, "task": "one"}}
    assert request.wrong


def test_tasks_that_do_not_exist():
    for asked in (Asked("two"), Asked(tasks=["one", "two"])):
        with pytest.raises(WeftError, match="task 'two' does not exist"):
            RequestReader(TASKS, asked)
    with pytest.raises(WeftError, match="found none"):
        RequestReader(TASKS, Asked(tasks=[]))


def test_only_needed_columns_are_read_of_parquet_files():
    known = ("task", "text", "title", "label", "key")
    assert RequestReader(TASKS, Asked()).wanted(known) == ["task", "text", "title"]
    assert RequestReader(TASKS, Asked(id="key")).wanted(known) == ["task", "text", "title", "key"]
    assert RequestReader(TASKS, Asked(with_input=True)).wanted(known) is None
