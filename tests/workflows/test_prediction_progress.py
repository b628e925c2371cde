from __future__ import annotations

import io
import sys

import pytest

from weft.workflows import prediction_progress
from weft.workflows.prediction_progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("terminal", "show"), [(True, True), (True, False), (False, True)])
def test_a_bar_on_a_terminal_and_nothing_in_pipes(monkeypatch, terminal, show):
    stderr, stdout = Terminal() if terminal else io.StringIO(), sys.stdout
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(prediction_progress, "DELAY", 0.0)
    progress = Progress(show)
    progress.show(1000, 0.25)
    assert sys.stdout is stdout  # the predictions go there
    progress.show(2000, None)
    progress.close()
    assert ("rows" in stderr.getvalue()) == (terminal and show)


def test_short_inputs_show_none(monkeypatch):
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    progress = Progress(True)
    progress.show(10, 1.0)
    progress.close()
    assert stderr.getvalue() == ""
