"""A channel delivers messages in order, notices the end, and never makes a sender wait."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import Unreadable, nested
from weft.serving.processes.channel import Channel


class End:
    """One end of a channel, and what it got."""

    def __init__(self, connection, expected=0):
        self.messages, self.ended, self.complete = [], threading.Event(), threading.Event()
        self._expected = expected
        self.channel = Channel(connection, {"note": self._note}, self.ended.set)

    def _note(self, *arguments):
        self.messages.append(arguments)
        if len(self.messages) == self._expected:
            self.complete.set()


@given(messages=st.lists(st.tuples(st.integers(), st.text(max_size=5)), min_size=1, max_size=20))
def test_messages_arrive_in_order(messages):
    here, there = (End(each, len(messages)) for each in multiprocessing.Pipe())
    for end in (here, there):
        end.channel.start()
    for message in messages:
        here.channel.send("note", *message)
    assert there.complete.wait(10)
    assert there.messages == messages
    here.channel.close()
    assert there.ended.wait(10)
    there.channel.close()


def test_what_was_sent_arrives_before_the_end():
    here, there = (End(each) for each in multiprocessing.Pipe())
    here.channel.start()
    for number in range(100):
        here.channel.send("note", number)
    there.channel.start()
    here.channel.close()
    assert there.ended.wait(10)
    assert there.messages == [(number,) for number in range(100)]


def test_a_sender_does_not_wait_for_a_process_that_hangs():
    one, other = multiprocessing.Pipe()
    here = End(one)
    here.channel.start()
    began = time.monotonic()
    for _ in range(20):
        here.channel.send("note", b"x" * 1_000_000)  # nobody reads: a pipe holds much less
    assert time.monotonic() - began < 5
    other.close()
    assert here.ended.wait(10)


def test_messages_of_several_threads_arrive_whole_while_the_other_end_is_slow():
    """A message that does not fit into the pipe is written in parts, and no other one comes between them."""
    one, other = multiprocessing.Pipe()
    here, there = End(one), End(other, 4 * 40)
    here.channel.start()

    def send(thread):
        for number in range(40):
            here.channel.send("note", thread, number, bytes([thread]) * (7919 * number))

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)  # by now the pipe is full
    there.channel.start()
    for thread in threads:
        thread.join()
    assert there.complete.wait(30)
    for thread in range(4):
        own = [(number, data) for sender, number, data in there.messages if sender == thread]
        assert own == [(number, bytes([thread]) * (7919 * number)) for number in range(40)]
    here.channel.close()
    assert there.ended.wait(10)
    there.channel.close()


def test_the_end_is_noticed_once_on_both_sides():
    ends = []
    here, there = multiprocessing.Pipe()
    channels = [Channel(each, {}, lambda n=n: ends.append(n)) for n, each in enumerate((here, there))]
    for channel in channels:
        channel.start()
    channels[0].close()
    channels[1]._receiver.join(10)
    channels[0]._receiver.join(10)
    channels[1].close()
    assert sorted(ends) == [0, 1]


def test_a_message_that_cannot_be_pickled_takes_no_other_with_it():
    one, other = multiprocessing.Pipe()
    unsent = []
    here = Channel(one, {}, lambda: None, lambda name, arguments, error: unsent.append((name, arguments)))
    there = End(other, 2)
    here.start()
    there.channel.start()
    here.send("note", 1)
    here.send("note", nested(100_000))
    here.send("note", threading.Lock())
    here.send("note", 2)
    assert there.complete.wait(10)
    assert there.messages == [(1,), (2,)]
    assert [name for name, _ in unsent] == ["note", "note"]
    here.close()
    assert there.ended.wait(10)
    there.channel.close()


@pytest.mark.parametrize(
    "message",
    [("note", threading.Lock()), ("note", Unreadable()), ("unknown",), ("fails",)],
    ids=["pickled", "unpickled", "name", "handler"],
)
def test_a_message_that_is_lost_ends_the_channel_on_both_sides(capsys, message):
    def fails():
        raise ZeroDivisionError("a handler failed")

    one, other = multiprocessing.Pipe()
    here, there = End(one), End(other)
    there.channel._handlers = {"note": there._note, "fails": fails}
    here.channel.start()
    there.channel.start()
    here.channel.send(*message)
    assert here.ended.wait(10)
    assert there.ended.wait(10)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["failure"]
    here.channel.close()
    there.channel.close()
