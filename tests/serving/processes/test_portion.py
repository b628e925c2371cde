"""Questions of any kind reach the model's process as they were read, tokenized as the model would do it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.serving import REQUESTS, save_every_kind
from weft.serving.batching.ticket import Item, Ticket
from weft.serving.batching.worker import Worker
from weft.serving.processes.portion import Reader, packed, unpacked
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.questions.question import One
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return weft.load(save_every_kind(tmp_path_factory.mktemp("portion")))


def table(model):
    tasks = model.tasks
    return ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")


def sent(model, served, bodies, later=None):
    """The tickets of some bodies, and what arrives of them after the table has become `later`."""
    tickets = [
        Ticket(predict_questions(body, served, ServeSettings()), 30.0, lambda: None) for body in bodies
    ]
    for number, ticket in enumerate(tickets):
        ticket.number = number + 5
    portion = packed(tickets, served, Reader(served.tasks, model.tokenizer, model.max_length))
    numbers = []

    def ticket_of(number, questions, seconds):
        numbers.append(number)
        return Ticket(questions, seconds, lambda: None)

    arrived = unpacked(pickle.loads(pickle.dumps(portion)), later or served, ticket_of)
    assert numbers == [ticket.number for ticket in tickets]
    return tickets, arrived


def body_of(requests):
    return {"requests": [{"task": task, **row, "id": n} for n, (task, row) in enumerate(requests)]}


@settings(max_examples=15)
@given(
    requests=st.lists(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6), min_size=1, max_size=5),
    every=st.booleans(),
)
def test_questions_arrive_as_they_were_read_and_tokenized(model, requests, every):
    served = table(model)
    bodies = [body_of(each) for each in requests] + [{"tasks": "all", "text": "the cat"}] * every
    tickets, arrived = sent(model, served, bodies)
    for ticket, (copy, items) in zip(tickets, arrived, strict=True):
        assert list(copy.questions) == list(ticket.questions)
        assert copy.deadline - ticket.deadline + 5 > 0
        assert [item.position for item in items] == list(range(len(items)))
        own = [Item(ticket, place, question) for place, question in enumerate(ticket.questions)]
        Worker(model).tokenize(own)
        for item, right in zip(items, own, strict=True):
            if not isinstance(item.question, One):
                assert item.tokens is None
                continue
            assert item.size == right.size
            rows, right_rows = (list(x.tokens.rows_of(x.example)) for x in (item, right))
            for row, right_row in zip(rows, right_rows, strict=True):
                np.testing.assert_array_equal(item.tokens.ids(row), right.tokens.ids(right_row))
            assert item.tokens.is_truncated(item.example) == right.tokens.is_truncated(right.example)


def test_tokens_for_a_task_that_was_replaced_meanwhile_are_dropped(model):
    served = table(model)
    slot = served.ids["classify"]
    later = served.with_task(slot, model.tasks[slot], "y")
    requests = [request for request in REQUESTS if request[0] in ("classify", "span")]
    _, ((_, items),) = sent(model, served, [body_of(requests)], later)
    kept = {item.question.value[0]: item.tokens is not None for item in items}
    assert kept == {"classify": False, "span": True}


def test_what_was_read_for_an_older_task_is_not_tokenized(model):
    old = table(model)
    slot = old.ids["classify"]
    new = old.with_task(slot, model.tasks[slot], "y")
    ticket = Ticket(predict_questions(body_of(REQUESTS[:1]), old, ServeSettings()), 30.0, lambda: None)
    portion = packed([ticket], new, Reader(new.tasks, model.tokenizer, model.max_length))
    assert portion.tokenized == []
    ((copy, items),) = unpacked(portion, new, lambda number, questions, seconds: ticket)
    assert items[0].tokens is None
    assert copy.questions[0].inputs == ticket.questions[0].inputs


def test_a_question_that_cannot_be_tokenized_leaves_all_to_the_model_process(model):
    served = table(model)
    ticket = Ticket(predict_questions(body_of(REQUESTS[:3]), served, ServeSettings()), 30.0, lambda: None)
    portion = packed([ticket], served, Reader(served.tasks, None, model.max_length))
    ((_, items),) = unpacked(portion, served, lambda number, questions, seconds: ticket)
    assert [item.tokens for item in items] == [None] * 3
