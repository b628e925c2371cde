"""An error where none is expected fails the requests that it meets, and no thread of the batcher ends."""

from __future__ import annotations

import json
import threading

import pytest

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind
from weft.serving.batching.batcher import WORTHWHILE, Batcher
from weft.serving.batching.ticket import Item, Ticket
from weft.serving.batching.worker import Worker
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks


class Failures:
    """Remembers the errors; if it is broken, it raises them."""

    def __init__(self):
        self.errors, self.broken = [], False

    def batch(self, batch, seconds):
        pass

    def failure(self, error, items):
        self.errors.append(error)
        if self.broken:
            raise ZeroDivisionError("the log is full")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return weft.load(save_every_kind(tmp_path_factory.mktemp("last-resort")))


@pytest.fixture
def batcher(model):
    made = batcher_of(model)
    yield made
    made.close()


def batcher_of(model, **options):
    tasks = model.tasks
    served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
    return Batcher(Worker(model, tokens=256), served, Failures(), queue=10_000, **options)


def submitted(batcher, requests):
    done = threading.Event()
    body = {"requests": [{"task": task, **row} for task, row in requests]}
    ticket = Ticket(predict_questions(body, batcher.served, ServeSettings()), 60.0, done.set)
    batcher.submit(ticket)
    return ticket, done


def check_fails(batcher, requests=REQUESTS[:3]):
    """A request fails, and is told so."""
    ticket, done = submitted(batcher, requests)
    assert done.wait(30)
    assert ticket.error.status == 500
    assert "secret" not in ticket.error.message


def check_answers(batcher, model):
    """The next request is answered."""
    ticket, done = submitted(batcher, REQUESTS)
    assert done.wait(30)
    assert ticket.error is None
    assert_near([plain(answer) for answer in ticket.answers], model.predict(REQUESTS), 1e-5)


def failing(*_, **__):
    raise RuntimeError("a secret of the server")


@pytest.mark.parametrize("name", ["batches", "start", "finish", "tokenize"])
@pytest.mark.parametrize("broken", [False, True])
def test_an_error_of_the_worker(batcher, model, monkeypatch, capsys, name, broken):
    batcher._observer.broken = broken
    with monkeypatch.context() as patch:
        patch.setattr(batcher.worker, name, failing)
        check_fails(batcher)
    assert any("secret" in str(error) for error in batcher._observer.errors)
    if broken:  # the error is written, too, if it cannot be counted
        assert "secret" in capsys.readouterr().err
    check_answers(batcher, model)


@pytest.mark.parametrize("name", ["answer", "prepared", "_deliver"])
def test_an_error_of_the_answerer(batcher, model, monkeypatch, name):
    with monkeypatch.context() as patch:
        patch.setattr(batcher, name, failing)
        check_fails(batcher)
    check_answers(batcher, model)


def test_an_error_in_a_question_alone(batcher, model, monkeypatch):
    """One that cannot be measured or read again fails; those beside it do not."""
    held, started = threading.Event(), threading.Event()

    def hold():
        started.set()
        held.wait(30)

    batcher.between_batches(hold)
    assert started.wait(30)
    size = Item.size.fget
    monkeypatch.setattr(Item, "size", property(lambda item: failing() if item.ticket is bad else size(item)))
    version = batcher.served.version_of

    def version_of(question):
        return failing() if question in bad.questions else version(question)

    bad, told = submitted(batcher, REQUESTS[:2])
    ticket, done = submitted(batcher, REQUESTS[2:5])
    monkeypatch.setattr(type(batcher.served), "version_of", lambda _, question: version_of(question))
    held.set()
    assert told.wait(30)
    assert done.wait(30)
    assert bad.error.status == 500
    assert ticket.error is None
    assert_near([plain(answer) for answer in ticket.answers], model.predict(REQUESTS[2:5]), 1e-5)


def test_an_error_while_further_questions_are_tokenized(batcher, model, monkeypatch):
    """The tokenizer's thread works while all lanes are busy."""
    began, go_on = threading.Event(), threading.Event()
    real = batcher.worker.start

    def start(batch):
        began.set()
        go_on.wait(30)
        return real(batch)

    with monkeypatch.context() as patch:
        patch.setattr(batcher.worker, "start", start)
        first, answered = submitted(batcher, REQUESTS[:1])
        assert began.wait(30)
        patch.setattr(batcher, "prepared", failing)
        check_fails(batcher, (REQUESTS * WORTHWHILE)[:WORTHWHILE])
        go_on.set()
        assert answered.wait(30)
    assert first.error is None
    assert all(thread.is_alive() for thread in batcher._threads)
    check_answers(batcher, model)


def test_an_error_at_the_start_of_a_lane(model):
    batcher = batcher_of(model, begin=failing)
    check_answers(batcher, model)
    batcher.close()
    assert len(batcher._observer.errors) == 1


def test_a_command_whose_result_nobody_takes(batcher, model):
    started, held = threading.Event(), threading.Event()
    batcher.between_batches(lambda: (started.set(), held.wait(30)))
    assert started.wait(30)
    result = batcher.between_batches(lambda: 7)
    assert result.cancel()
    held.set()
    check_answers(batcher, model)


def test_a_failure_in_the_log_is_one_line(batcher, monkeypatch, capsys):
    batcher._observer.broken = True
    monkeypatch.setattr(batcher, "answer", failing)
    check_fails(batcher)
    for line in capsys.readouterr().err.splitlines():
        assert json.loads(line)["event"] == "failure"
