"""kill -9 of every command that writes: the old state or the new one, and the command can be run again."""

from __future__ import annotations

import os

import pytest

from tests.support.kills import check, moments, prepare
from tests.support.more import some_of
from tests.support.writing_commands import WRITING_COMMANDS, write_home

KILLS = os.environ.get("WEFT_KILLS", "2")
"""How often each command is killed; `all`: before every access to a file."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_home(tmp_path_factory.mktemp("kills") / "home")


KEPT = ("task add", "compact, in place of a bundle", "new")
"""What `make test` keeps: a bundle changed in place, a new one in place of another, and one file."""


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of([command.name for command in WRITING_COMMANDS], KEPT))
def test_a_killed_command_leaves_the_old_state_or_the_new_one(name, home, tmp_path):
    command = next(command for command in WRITING_COMMANDS if command.name == name)
    prepared = prepare(command, home, tmp_path / "straight")
    chosen = moments(prepared, 0 if KILLS == "all" else int(KILLS), "suite")
    faults, killed = {}, 0
    for number, moment in enumerate(chosen):
        outcome = check(prepared, tmp_path / f"case-{number}", moment)
        killed += outcome.killed
        if outcome.faults:
            faults[moment] = outcome.faults
    assert faults == {}
    assert killed >= len(chosen) / 2, "the commands ended before they could be killed"
