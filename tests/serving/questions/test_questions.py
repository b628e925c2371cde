"""Every JSON value is either read or refused with a reason; what is read is what `predict` would read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from weft.inference.predict import plain_form, read_request
from weft.serving.questions.embed_questions import embed_questions
from weft.serving.questions.predict_questions import _plain, _read, again, predict_questions, timeout_of
from weft.serving.questions.question import Embed, Many, One
from weft.serving.questions.sample_requests import about_task, sample_request
from weft.serving.refused import STATUS, Refused
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks

TASKS = [task_of_kind(name) for name in NAMES]
SERVED = ServedTasks(TASKS, {task.name: i for i, task in enumerate(TASKS)}, [0] * len(TASKS), 0, "x")
SETTINGS = ServeSettings(texts=8, characters=400)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
keys = st.sampled_from(["task", "tasks", "text", "texts", "text_a", "requests", "id", "choices", "words"])
values = st.recursive(
    scalars | st.sampled_from([*NAMES, "all"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_any_value_is_read_or_refused(body):
    for read in (predict_questions, embed_questions):
        refused, questions = None, []
        try:
            questions = read(body, SERVED, SETTINGS)
        except Refused as wrong:
            refused = wrong
        if refused is None:
            assert 0 < len(questions) <= SETTINGS.texts
            assert all(isinstance(question, One | Many | Embed) for question in questions)
        else:
            assert refused.code in STATUS
            assert refused.message
            assert 400 <= refused.status < 500


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_read_as_by_predict(name):
    task = TASKS[NAMES.index(name)]
    for row in rows_of_kind(name, 5):
        (question,) = predict_questions({"task": name, **row}, SERVED, SETTINGS)
        assert question.task == NAMES.index(name)
        assert question.inputs == read_request(task, plain_form(task, row), "row")


texts = st.sampled_from(["", " ", "It rains.", "é", "\ud83d", "x" * 300]) | st.none() | st.integers()
requests = st.dictionaries(
    st.sampled_from(["task", "text", "text_a", "text_b", "id", "timeout_ms", "a", "sentence"]), texts
)
columns = st.sampled_from([("text",), ("a",), ("text_a", "text_b"), ("a", "sentence"), ("{text}!",), ("id",)])


@given(columns=columns, value=requests | texts | st.lists(texts, max_size=3))
def test_the_fast_path_reads_what_the_whole_reader_reads(columns, value):
    """Also where a column of the task's files has the name of a key of plain requests."""
    task = weft.Task("task", labels=("no", "yes"), texts=columns, label="label")
    served = ServedTasks([task], {"task": 0}, [0], 0, "x")
    fast = _plain(value, served.plain[0], served.plain_characters)
    if fast is not None:
        assert fast == _read(task, value, "")


def test_plain_texts_take_the_fast_path_and_long_ones_do_not(monkeypatch):
    monkeypatch.setenv("WEFT_MAX_CHARACTERS", "100")
    task = weft.Task("task", labels=("no", "yes"), texts=("sentence",), label="label")
    served = ServedTasks([task], {"task": 0}, [0], 0, "x")
    assert _plain({"text": "It rains."}, served.plain[0], served.plain_characters) is not None
    assert _plain({"text": "x" * 101}, served.plain[0], served.plain_characters) is None
    with pytest.raises(Refused, match="101 characters"):
        predict_questions({"text": "x" * 101}, served, ServeSettings())


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_task_is_accepted_by_it(name):
    task = TASKS[NAMES.index(name)]
    assert predict_questions(sample_request(task), SERVED, SETTINGS)[0].task == NAMES.index(name)
    assert about_task(task)["inputs"] == [key for key in sample_request(task) if key != "task"]


@pytest.mark.parametrize(
    "settings",
    [
        {"texts": ("query: {review}",), "labels": ("no", "yes")},
        {"texts": ("{title}: {body}",), "labels": ("no", "yes")},
        {"texts": ("paragraph", "{question} {answer}"), "labels": ("no", "yes")},
        {"kind": "choose", "texts": ("{premise} Why?",), "choices": ("one", "two", "three")},
        {"kind": "choose", "texts": ("{premise} {question}",), "choices": ("one", "two", "three")},
        {"kind": "rank", "texts": ("{premise} {question}",), "choices": ("all",)},
    ],
)
def test_the_example_of_a_task_with_templates_is_accepted_by_it(settings):
    task = weft.Task("task", label="label", **settings)
    served = ServedTasks([task], {"task": 0}, [0], 0, "x")
    assert predict_questions(sample_request(task), served, SETTINGS)[0].task == 0


@pytest.mark.parametrize("column", ["review", "text"])
def test_a_template_is_filled_whether_its_column_is_named_or_not(column):
    texts = (f"query: {{{column}}}",)
    task = weft.Task("task", labels=("no", "yes"), texts=texts, label="label")
    served = ServedTasks([task], {"task": 0}, [0], 0, "x")
    bodies = [{"text": "red shoes"}, {column: "red shoes"}, {"texts": ["red shoes"]}]
    for body in bodies:
        assert predict_questions(body, served, SETTINGS)[0].inputs.texts == ("query: red shoes",)


def test_where_no_encoder_runs_alone_an_embedding_needs_a_task():
    served = replace(SERVED, embeds_alone=False)
    with pytest.raises(Refused, match="tasks: classify") as caught:
        embed_questions({"text": "the cat"}, served, SETTINGS)
    assert (caught.value.status, caught.value.where) == (422, "task")
    assert embed_questions({"text": "the cat", "task": "classify"}, served, SETTINGS)[0].task == "classify"


def test_a_question_is_read_again_for_the_task_of_its_name():
    (question,) = predict_questions({"task": "classify", "text": "the cat", "id": 3}, SERVED, SETTINGS)
    moved = SERVED.without_task("classify", "y").with_task(1, task_of_kind("classify"), "z")
    again_read = again(question, moved)
    assert (again_read.task, again_read.id, again_read.inputs) == (1, 3, question.inputs)
    with pytest.raises(Refused, match="does not exist"):
        again(question, SERVED.without_task("classify", "y"))
    (many,) = predict_questions({"tasks": "all", "text": "the cat"}, SERVED, SETTINGS)
    assert set(again(many, SERVED.without_task("classify", "y")).inputs) == set(many.inputs) - {0}


def test_a_replaced_slot_has_a_new_version():
    changed = SERVED.with_task(0, TASKS[0], "y")
    assert changed.versions[0] == 1
    assert changed.versions[1:] == SERVED.versions[1:]
    assert changed.version == 1
    assert list(changed.ids) == list(SERVED.ids)


@pytest.mark.parametrize(("value", "seconds"), [(None, 30.0), (50, 0.05), (10**9, 30.0)])
def test_the_deadline_is_at_most_the_servers(value, seconds):
    assert timeout_of({"timeout_ms": value}, SETTINGS) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [0, -1, True, "x", float("nan"), float("inf"), [1]])
def test_odd_deadlines_are_refused(value):
    with pytest.raises(Refused, match="milliseconds"):
        timeout_of({"timeout_ms": value}, SETTINGS)
