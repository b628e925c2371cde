"""The progress display: lines fit with any number of tasks, and the first one comes at once."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.support.tiny_run import write_run
from weft.cli import run
from weft.training.run.progress import WIDTH, Bar, Lines, Quiet, clock, early, fit, progress_for
from weft.utils.notes import quiet

NAME = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=40)
NAMES = st.lists(NAME, unique=True, max_size=60)


@given(NAMES, st.integers(40, 200))
def test_a_line_fits_and_counts_every_task(names, width):
    line = fit("step 1/9", "loss", dict.fromkeys(names, "0.123"), width, f"mean of {len(names)}")
    assert line.startswith("step 1/9")
    assert cell_len(line) <= width
    rest = line.removeprefix("step 1/9").removeprefix("  loss: ")
    if not names:
        assert rest == ""
    elif rest == f"mean of {len(names)}":  # not even the first one fits
        more = f"  +{len(names) - 1} tasks" if len(names) > 1 else ""
        assert cell_len(f"step 1/9  loss: {names[0]} 0.123{more}") >= width
    else:
        *shown, last = rest.split("  ")
        hidden = re.fullmatch(r"\+(\d+) tasks?", last)
        shown = shown if hidden else [*shown, last]
        assert shown == [f"{name} 0.123" for name in names[: len(shown)]]
        assert len(shown) + (int(hidden[1]) if hidden else 0) == len(names)
        assert not hidden or int(hidden[1]) > 0


@given(NAMES, st.integers(1, 10**7), st.data())
def test_plain_lines_fit_80_columns(names, total, data):
    out = io.StringIO()
    lines = Lines(total, out=out)
    done = data.draw(st.integers(1, total))
    lines.step(done, dict.fromkeys(names, 12.3456))
    lines.evaluated(done, 1.0, dict.fromkeys(names, "100.0"))
    lines.step(done, dict.fromkeys(names, 12.3456))
    first, second, third = out.getvalue().splitlines()
    place = f"step {done:>{len(str(total))}}/{total} {100 * done / total:5.1f}%"
    assert all(line.startswith(place) and cell_len(line) <= WIDTH for line in (first, second, third))
    assert "score" not in first
    assert "score 100.0" in second
    assert "score 100.0" in third


def test_a_line_has_the_place_the_time_and_the_score_before_the_tasks(monkeypatch):
    out, now = io.StringIO(), 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines = Lines(2000, out=out)
    now += 60  # compilation
    lines.step(1, {"cola": 0.6931})
    for done in range(2, 12):
        now += 0.5
        lines.step(done, None)
    lines.evaluated(11, 0.7134, {"cola": "42.1", "score": "0.512"})
    lines.step(12, {"cola": 0.5, "score": 1.0})
    assert out.getvalue().splitlines() == [
        "step    1/2000   0.1%  loss: cola 0.693",  # the first step says nothing about the time left
        "step   11/2000   0.6%  left 16:34  score 71.3  tasks: cola 42.1  score 0.512",
        "step   12/2000   0.6%  left 15:04  score 71.3  loss: cola 0.500  score 1.000",
    ]


def test_a_resumed_run_shows_that_it_runs():
    out = io.StringIO()
    lines = Lines(2000, first=1234, out=out)
    lines.step(1235, None)
    lines.step(1236, None)
    assert out.getvalue() == "step 1235/2000  61.8%\n"


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_bar_fits_the_terminal(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    bar = Bar(20_000, console=console)
    losses = {f"[b]{number}": 0.5 for number in range(40)}  # names are no markup
    bar.step(1, losses)
    bar.evaluated(1, 0.5, dict.fromkeys(losses, "50.0"))
    bar.step(2, None)
    bar.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    lines = [line.strip() for line in re.split(r"[\r\n]", plain) if line.strip()]
    assert max(map(len, lines)) <= width
    last = lines[-1]
    assert "2/20000   0.0%" in last
    assert "score 50.0" in last
    assert "loss: [b]0 0.500" in last
    assert re.search(r"\+\d+ tasks$", last)
    assert not any("…" in line for line in lines)


def test_times():
    assert [clock(seconds) for seconds in (0, 42, 725, 10800)] == ["0:00", "0:42", "12:05", "3:00:00"]


def test_early_steps():
    assert [step for step in range(1, 2000) if early(step)] == [1, 10, 100, 1000]


def test_nothing_is_shown_if_messages_are_off():
    with quiet():
        assert isinstance(progress_for(10), Quiet)
    assert not isinstance(progress_for(10), Quiet)


def test_the_first_losses_do_not_wait_for_the_log(tmp_path, capsys):
    """Shown after step 1 and 10; the log has the mean over all steps, as without these lines."""
    file = write_run(tmp_path, steps=12, evaluate_every=12, log_every=1000)
    assert run(["train", str(file), "--out", str(tmp_path / "out")]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step")]
    assert [int(line.split("/")[0].split()[1]) for line in lines] == [1, 10, 12, 12]
    assert all("loss: " in line for line in lines[:3])
    assert "score " in lines[3]
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    steps = [line for line in log if line["event"] == "step"]
    assert [line["step"] for line in steps] == [12]
    each = write_run(tmp_path, steps=12, evaluate_every=12, log_every=1)
    assert run(["train", str(each), "--out", str(tmp_path / "each")]) == 0
    log = [json.loads(line) for line in (tmp_path / "each" / "log.jsonl").read_text().splitlines()]
    alone = [line["loss"] for line in log if line["event"] == "step"]
    assert set(steps[0]["loss"]) == {name for losses in alone for name in losses}
    for name, mean in steps[0]["loss"].items():
        values = [losses[name] for losses in alone if name in losses]
        assert min(values) <= mean <= max(values)
