"""The record of a lock's holder: what is read back, and when its process has certainly ended."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.support.forked import Forked
from weft.utils.lock_holder import Holder, start_of


def me() -> Holder:
    return Holder.current("weft train", Path("/runs/x/.weft-lock"))


def test_it_is_read_back():
    holder = me()
    assert Holder.parse(holder.text()) == holder
    assert holder.process == os.getpid()
    assert holder.here
    assert not holder.gone()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["process", "host", "since", "doing", "started", "x"]), inner, max_size=5
        ),
    ),
    max_leaves=8,
)


@given(st.one_of(st.text(), JSON.map(lambda value: __import__("json").dumps(value))))
def test_what_is_no_record_is_none_and_what_is_one_can_be_shown(text):
    holder = Holder.parse(text)
    assert holder is None or str(holder).isprintable()
    assert holder is None or holder.gone() in (True, False)


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in str(replace(me(), host="\x1b[31mhost\n", doing="\x07" * 500))


def test_a_process_that_has_ended_is_gone():
    started = []
    process = Forked(lambda: time.sleep(600))
    started = start_of(process.process)
    assert started is not None
    holder = replace(me(), process=process.process, started=started)
    assert not holder.gone()
    process.kill()
    assert holder.gone()


def test_an_id_that_is_used_again_is_a_different_process():
    assert replace(me(), started="12").gone()
    assert not replace(me(), started=None).gone()  # not known


def test_a_machine_that_was_started_again():
    holder = me()
    if holder.boot is not None and holder.machine is not None:
        assert replace(holder, boot="before").gone()
    assert not replace(holder, boot="x", machine="a different machine of the same name").gone()


def test_of_other_machines_and_containers_nothing_is_known():
    assert not replace(me(), host="elsewhere", process=1 << 22).gone()
    assert not replace(me(), namespace="pid:[1]", process=1 << 22).gone()
    assert not replace(me(), host="elsewhere").here
