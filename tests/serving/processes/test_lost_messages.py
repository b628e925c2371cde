"""A message that cannot be sent or read fails its own requests, and no other one waits for it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest

import weft
from tests.support.messages import Unreadable, nested
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind
from weft.serving.batching.batcher import Batcher
from weft.serving.batching.ticket import Ticket
from weft.serving.batching.worker import Worker
from weft.serving.processes import peer as peers
from weft.serving.processes.http_engine import HttpEngine
from weft.serving.processes.model_process import deliver
from weft.serving.processes.portion import packed
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.refused import Refused
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks

SETTINGS = ServeSettings()


class Silent:
    def batch(self, batch, seconds):
        pass

    def failure(self, error, items):
        raise AssertionError("the model fails here never") from error


class Owner:
    """The model's process: it answers calls of functions itself."""

    def __init__(self, batcher):
        self.engine = SimpleNamespace(queue=batcher)
        self.ends, self.result = threading.Event(), 7

    def called(self, peer, number, name, arguments):
        peer.send("result", number, self.result, None)

    def ended(self, peer):
        self.ends.set()


class Both:
    """Both ends of a server with one HTTP process, in this process.

    Attributes:
        engine: that of the HTTP process.
        peer: the HTTP process, as the model's process sees it.
    """

    def __init__(self, model, monkeypatch):
        tasks = model.tasks
        served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
        self.batcher = Batcher(Worker(model, tokens=256), served, Silent(), wake=deliver)
        self.owner = Owner(self.batcher)
        descriptors = []

        def start(command, pass_fds, **_):
            descriptors.append(os.dup(pass_fds[1]))

        with monkeypatch.context() as patch:
            patch.setattr(peers.subprocess, "Popen", start)
            port, _ = multiprocessing.Pipe()  # any descriptor will do
            self.peer = peers.Peer(self.owner, SETTINGS, port)
        connection = Connection(descriptors[0])
        connection.recv_bytes()  # the settings
        self.engine = HttpEngine(connection, SETTINGS, lambda: b"")
        self.peer.send("ready", served, model.tokenizer, model.max_length)
        self.engine.load_logged(lambda tickets: [ticket.finish() for ticket in tickets])

    def submitted(self, requests, identity=None):
        done = threading.Event()
        body = {"requests": [{"task": task, **row} for task, row in requests]}
        questions = predict_questions(body, self.engine.served, SETTINGS)
        if identity is not None:
            for question in questions:
                object.__setattr__(question, "id", identity)
        ticket = Ticket(questions, 60.0, done.set)
        self.engine.queue.submit(ticket)
        return ticket, done

    def close(self):
        self.engine.close()
        self.peer.drop()
        self.batcher.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return weft.load(save_every_kind(tmp_path_factory.mktemp("lost")))


@pytest.fixture
def both(model, monkeypatch):
    made = Both(model, monkeypatch)
    yield made
    made.close()


def check_answered(model, ticket, done, requests):
    assert done.wait(30)
    assert ticket.error is None
    assert_near([plain(answer) for answer in ticket.answers], model.predict(requests), 1e-5)


def check_failed(ticket, done):
    assert done.wait(30)
    assert ticket.error.status == 500


@pytest.mark.parametrize("identity", [nested(100_000), threading.Lock()], ids=["deep", "lock"])
def test_a_question_that_cannot_be_sent_fails_alone(both, model, identity):
    """The first is on its way alone; the others are in one portion, probably."""
    check_failed(*both.submitted(REQUESTS[:1], identity))
    sent = [both.submitted(REQUESTS[n : n + 2], identity if n == 4 else n) for n in range(0, 12, 2)]
    for number, (ticket, done) in enumerate(sent):
        if number == 2:
            check_failed(ticket, done)
        else:
            check_answered(model, ticket, done, REQUESTS[2 * number : 2 * number + 2])
    assert not both.owner.ends.is_set()


def test_one_portion_with_a_question_that_cannot_be_sent(both, model, monkeypatch):
    queue = both.engine.queue
    with queue._work:  # the tokenizer's thread waits meanwhile
        sent = [both.submitted(REQUESTS[n : n + 2], nested(100_000) if n == 2 else None) for n in (0, 2, 4)]
    check_answered(model, *sent[0], REQUESTS[:2])
    check_failed(*sent[1])
    check_answered(model, *sent[2], REQUESTS[4:6])
    assert queue._sent == {}


def test_a_portion_that_is_being_packed_when_the_other_process_ends(both, monkeypatch):
    """It is neither waiting nor sent then, and nobody would answer it."""
    packing, ended = threading.Event(), threading.Event()

    def slow(*arguments):
        packing.set()
        ended.wait(30)
        return packed(*arguments)

    monkeypatch.setattr("weft.serving.processes.remote_queue.packed", slow)
    ticket, done = both.submitted(REQUESTS[:2])
    assert packing.wait(30)
    both.engine.queue.fail_all(Refused("not_ready", "gone"))
    ended.set()
    assert done.wait(30)
    assert ticket.error.status == 503
    assert both.engine.queue._sent == {}


def test_a_portion_that_cannot_be_packed(both, model, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("weft.serving.processes.remote_queue.packed", lambda *_: 1 // 0)
        check_failed(*both.submitted(REQUESTS[:2]))
    check_answered(model, *both.submitted(REQUESTS[:2]), REQUESTS[:2])


def test_a_portion_that_cannot_be_unpacked(both, model, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(peers, "unpacked", lambda *_: 1 // 0)
        check_failed(*both.submitted(REQUESTS[:2]))
    check_answered(model, *both.submitted(REQUESTS[:2]), REQUESTS[:2])


def test_a_request_that_cannot_be_queued(both, model, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(both.batcher, "submit", lambda *_: 1 // 0)
        check_failed(*both.submitted(REQUESTS[:2]))
    assert both.peer._tickets == {}
    check_answered(model, *both.submitted(REQUESTS[:2]), REQUESTS[:2])


def test_an_answer_that_cannot_be_sent_fails_alone(both, model, monkeypatch):
    held, sent = threading.Event(), []
    finish = both.batcher.worker.finish

    def finished(batch, started):
        answers = finish(batch, started)
        for item, answer in zip(batch.items, answers, strict=True):
            answer.update({"more": threading.Lock()} if item.ticket.number == sent[1][0].number else {})
        return answers

    monkeypatch.setattr(both.batcher.worker, "finish", finished)
    both.batcher.between_batches(lambda: held.wait(30))
    sent += [both.submitted(REQUESTS[n : n + 2]) for n in (0, 2, 4)]
    held.set()
    check_answered(model, *sent[0], REQUESTS[:2])
    check_failed(*sent[1])
    check_answered(model, *sent[2], REQUESTS[4:6])


def test_a_call_whose_arguments_or_result_cannot_be_sent(both):
    assert both.engine.call("anything") == 7
    with pytest.raises(Refused, match="its log"):
        both.engine.call("anything", threading.Lock())
    both.owner.result = threading.Lock()
    with pytest.raises(Refused, match="its log"):
        both.engine.call("anything")


def test_a_message_for_no_request_ends_the_process(both):
    """An HTTP process without the newest table of tasks would answer wrongly: it is replaced."""
    ended = threading.Event()
    both.engine.on_end = ended.set
    waiting = threading.Event()
    both.batcher.between_batches(lambda: waiting.wait(30))
    ticket, done = both.submitted(REQUESTS[:1])
    both.peer.send("table", Unreadable())
    assert ended.wait(30)
    assert both.owner.ends.wait(30)
    waiting.set()
    assert both.engine.state == "failed"
    assert done.wait(30)
    assert ticket.error.status == 503
    assert both.peer.gone
    with pytest.raises(Refused, match="stopped"):  # at once: nobody would answer
        both.engine.call("metrics")
