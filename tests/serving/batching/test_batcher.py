"""The batcher: no question is lost or answered twice, in whatever order and portions they arrive."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind
from weft.serving.batching.batcher import Batcher
from weft.serving.batching.ticket import Ticket
from weft.serving.batching.worker import Worker
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.refused import Refused
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks


class Seen:
    """Remembers the batches."""

    def __init__(self):
        self.batches = []

    def batch(self, batch, seconds):
        self.batches.append(batch)

    def failure(self, error, items):
        raise AssertionError("no question fails here") from error


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return weft.load(save_every_kind(tmp_path_factory.mktemp("batcher")))


@pytest.fixture
def batcher(model):
    tasks = model.tasks
    served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
    made = Batcher(Worker(model, tokens=256), served, Seen(), queue=10_000)
    yield made
    made.close()


def ticket_of(batcher, requests):
    done = threading.Event()
    body = {"requests": [{"task": task, **row} for task, row in requests]}
    ticket = Ticket(predict_questions(body, batcher.served, ServeSettings()), 30.0, done.set)
    return ticket, done


@settings(max_examples=10)
@given(
    portions=st.lists(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=12), max_size=12),
    lanes=st.integers(1, 3),
)
def test_every_question_is_answered_once(model, portions, lanes):
    tasks = model.tasks
    served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
    seen = Seen()
    batcher = Batcher(Worker(model, tokens=128), served, seen, lanes=lanes)
    sent = [(portion, *ticket_of(batcher, portion)) for portion in portions]
    for _, ticket, _ in sent:
        batcher.submit(ticket)
    for portion, ticket, done in sent:
        assert done.wait(30)
        assert_near([plain(answer) for answer in ticket.answers], model.predict(portion), 1e-5)
    batcher.close()
    assert sum(len(batch.items) for batch in seen.batches) == sum(map(len, portions))
    assert batcher.waiting == 0


def test_a_long_queue_is_sorted_by_length_and_cut_within_the_budget(batcher):
    held, started = threading.Event(), threading.Event()

    def hold():
        started.set()
        held.wait(10)

    batcher.between_batches(hold)
    started.wait(10)
    texts = ["the cat " * n for n in (1, 8) * 40]
    ticket, done = ticket_of(batcher, [("classify", {"text": text}) for text in texts])
    batcher.submit(ticket)
    held.set()
    assert done.wait(30)
    batches = batcher._observer.batches
    assert all(batch.positions <= 256 for batch in batches)
    padding = sum(batch.positions - batch.tokens for batch in batches)
    # in the order of arrival every batch would hold both lengths, and a third would be padding
    assert padding < 0.15 * sum(batch.positions for batch in batches)


def test_an_idle_batcher_waits_for_no_company(batcher):
    for _ in range(3):
        ticket, done = ticket_of(batcher, REQUESTS[:1])
        batcher.submit(ticket)
        assert done.wait(10)
    assert [len(batch.items) for batch in batcher._observer.batches] == [1, 1, 1]


def test_a_closed_batcher_has_answered_what_it_accepted(model, batcher):
    tickets = [ticket_of(batcher, REQUESTS[i : i + 9]) for i in range(0, 90, 9)]
    for ticket, _ in tickets:
        batcher.submit(ticket)
    batcher.close()
    assert all(done.is_set() and ticket.error is None for ticket, done in tickets)
    with pytest.raises(Refused, match="stopping"):
        batcher.submit(ticket_of(batcher, REQUESTS[:1])[0])


class Meeting(Worker):
    """Notes how many batches run at once; each waits until `meet` of them run. If that takes too long, the
    following ones do not wait.
    """

    def __init__(self, model, meet, seconds):
        super().__init__(model, tokens=64)
        self._seconds = seconds
        self.running = self.most = 0
        self._barrier, self._lock = threading.Barrier(meet), threading.Lock()

    def start(self, batch):
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        with suppress(threading.BrokenBarrierError):
            self._barrier.wait(self._seconds)
        try:
            return super().start(batch)
        finally:
            with self._lock:
                self.running -= 1


def lanes_of(model, lanes, seconds, begin=lambda: None):
    tasks = model.tasks
    served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
    return Batcher(Meeting(model, lanes, seconds), served, Seen(), lanes=lanes, begin=begin)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [2, 3])
def test_lanes_share_what_waits(model, lanes):
    """One request of many questions is answered by all lanes side by side."""
    begun = []
    batcher = lanes_of(model, lanes, 10, lambda: begun.append(threading.current_thread().name))
    ticket, done = ticket_of(batcher, REQUESTS * 4)
    batcher.submit(ticket)
    assert done.wait(60)
    batcher.close()
    assert batcher.worker.most == lanes
    assert len(set(begun)) == lanes
    assert_near([plain(answer) for answer in ticket.answers], model.predict(REQUESTS * 4), 1e-5)


class Ahead(Worker):
    """Returns from `start` before the results are there, as on a GPU; notes what was called."""

    def __init__(self, model):
        super().__init__(model, tokens=64)
        self.calls = []

    @property
    def waits(self):
        return True

    def _cuts(self, examples):
        return [[number] for number in range(len(examples))]

    def start(self, batch):
        self.calls.append("start")
        return super().start(batch)

    def finish(self, batch, started):
        self.calls.append("finish")
        return super().finish(batch, started)


def test_a_batch_is_decoded_while_the_next_one_runs(model):
    """As on a GPU; the last one of a long queue, too, and none is left over when a command comes."""
    tasks = model.tasks
    served = ServedTasks(tasks, {task.name: i for i, task in enumerate(tasks)}, [0] * len(tasks), 0, "x")
    batcher = Batcher(Ahead(model), served, Seen())
    tickets = [ticket_of(batcher, REQUESTS * 2) for _ in range(3)]
    for ticket, _ in tickets:
        batcher.submit(ticket)
    assert all(done.wait(60) for _, done in tickets)
    right = model.predict(REQUESTS * 2)
    for ticket, _ in tickets:
        assert_near([plain(answer) for answer in ticket.answers], right, 1e-5)
    calls = batcher.worker.calls
    assert batcher.between_batches(lambda: calls.count("start") - calls.count("finish")).result(10) == 0
    batcher.close()
    assert calls[:3] == ["start", "start", "finish"]
    depth = [calls[:n].count("start") - calls[:n].count("finish") for n in range(len(calls) + 1)]
    assert max(depth) == 2
    assert min(depth[1:-1]) >= 0


def test_work_between_batches_runs_alone(model):
    batcher = lanes_of(model, 3, 0.2)
    worker, running, tickets = batcher.worker, [], []
    for _ in range(8):
        ticket, done = ticket_of(batcher, REQUESTS[:6])
        batcher.submit(ticket)
        tickets.append((ticket, done))
        batcher.between_batches(lambda: running.append(worker.running))
    assert all(done.wait(60) for _, done in tickets)
    batcher.close()
    assert running == [0] * 8
    assert all(ticket.error is None for ticket, _ in tickets)


def test_work_between_batches_returns_and_raises(batcher):
    assert batcher.between_batches(lambda: 7).result(10) == 7
    with pytest.raises(ZeroDivisionError):
        batcher.between_batches(lambda: 1 // 0).result(10)
