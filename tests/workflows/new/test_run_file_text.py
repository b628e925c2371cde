"""The text of a run file."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.config.tasks import TaskSpec
from weft.data.drafting.draft import TaskDraft
from weft.workflows.new.run_file_text import run_file_text

NAMES = st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=30, unique=True)


def text_of(settings, comments=None, about=()):
    draft = TaskDraft("x", settings, comments or {}, list(about), [], [], [], {}, "", 1, 1)
    return run_file_text("minilm", "lora", [draft], {"steps": 1}, {}, ["a header"])


@given(NAMES, st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_names_come_back_as_they_were(names, comment, column):
    """Whatever labels and columns are called: `no`, `1`, `: #`, line breaks; comments change nothing."""
    settings = {"texts": [column], "labels": names, "train": {"path": column, "delimiter": ";"}}
    text = text_of(settings, {"texts": comment, "labels": comment}, [comment])
    task = yaml.safe_load(text)["tasks"]["x"]
    spec = TaskSpec(name="x", **task)
    assert (spec.texts, spec.labels, spec.train) == ([column], names, settings["train"])


def test_long_lists_are_wrapped():
    names = [f"label number {n}" for n in range(80)]
    text = text_of({"labels": names}, {"labels": "many"})
    assert max(map(len, text.splitlines())) <= 105
    assert yaml.safe_load(text)["tasks"]["x"]["labels"] == names


def test_comments_stand_beside_their_keys():
    text = text_of({"kind": "classify", "drop": [None]}, {"kind": "two\nlines"}, ["above"])
    assert "    # above\n    kind: classify  # two lines\n    drop: [null]\n" in text
