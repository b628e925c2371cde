"""The progress of many cells, on a terminal and in plain lines."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from weft.experiments.display import NAME, Lines, Progress, Silent, Table, display_for, duration, short, state
from weft.experiments.records import Record
from weft.utils.notes import quiet

RECORD = Record(identity="1" * 64, metrics={"rte": {"accuracy": 0.713}}, seconds={"all": 75})


def worker(name="lora · seed 1", **facts):
    return SimpleNamespace(job=SimpleNamespace(name=name), state=facts)


def test_lines(monkeypatch):
    out = io.StringIO()
    lines = Lines(3, 1, out)
    lines.workers([worker()])
    assert out.getvalue() == ""
    lines.ended("a · seed 1", RECORD, None)
    lines.ended("b · seed 1", None, "it diverged\n  lower train.lr")
    assert out.getvalue() == "[2/3] a · seed 1: score 71.3  0:01:15\n[3/3] b · seed 1: failed: it diverged\n"
    monkeypatch.setattr("weft.experiments.display.EVERY", 0.0)
    lines.workers([worker(step=10, total=20, score=0.5)])
    assert "1 running  1 failed" in out.getvalue()
    assert "lora · seed 1: step 10/20  score 50.0" in out.getvalue()


def test_a_live_table_fits_the_terminal():
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    table = Table(4, 1, screen)
    table.workers([worker("x" * 90, step=1_000, total=12_000, score=None), worker()])
    table.ended("a · seed 1", RECORD, None)
    table.close()
    shown = screen.file.getvalue()
    assert "step 1,000/12,000" in shown
    assert "starts" in shown
    assert "score 71.3" in shown
    assert "1/4 done  2 running" in shown


def test_names_cannot_change_the_terminal():
    out = io.StringIO()
    Lines(1, 0, out).ended("\x1b[31mred", RECORD, None)
    assert "\x1b" not in out.getvalue()


def test_the_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = Progress(10, 2)
    assert progress.left([]) is None
    now[0] = 60.0
    progress.count(failed=False)
    # one and a half of eight cells in a minute: six and a half are left
    assert progress.left([worker(step=5, total=10)]) == pytest.approx(60 / 1.5 * 6.5)


def test_quiet_shows_nothing():
    with quiet():
        assert isinstance(display_for(1, 0), Silent)


def test_texts():
    assert duration(3725) == "1:02:05"
    assert len(short("y" * 90)) == NAME
    assert state(worker()) == "starts"
