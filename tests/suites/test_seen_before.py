"""Texts that were seen before: by the encoder, or in another task of the run."""

from __future__ import annotations

import pytest

from weft.encoder.packages import PACKAGES
from weft.suites import suite_tasks
from weft.suites.seen_before import seen_before
from weft.suites.tables import read_yaml


def test_the_encoder_has_seen_a_task():
    reasons = seen_before({"encoder": "minilm", "tasks": {"suite": "glue"}}, ["cola", "qqp", "mnli"])
    assert list(reasons) == ["qqp", "mnli"]
    assert reasons["mnli"] == ["the encoder was trained on MultiNLI"]
    assert seen_before({"encoder": "random:bert-base", "tasks": {"suite": "glue"}}, ["qqp"]) == {}


def test_two_tasks_that_share_texts():
    settings = {"encoder": "x", "tasks": [{"suite": "glue"}, {"suite": "squad"}]}
    reasons = seen_before(settings, ["qnli", "squad", "cola"])
    assert set(reasons) == {"qnli", "squad"}
    assert reasons["qnli"] == [
        "the run also trains on squad, and QNLI is made of SQuAD's questions and articles"
    ]
    assert seen_before(settings, ["qnli", "cola"]) == {}  # squad was not scored


@pytest.mark.parametrize("tasks", [None, [], {}, "glue", [{"name": "qqp"}], {"suite": "no such suite"}, [3]])
def test_tasks_of_no_suite_have_no_reason(tasks):
    """A task of the user's may have any name."""
    assert seen_before({"encoder": "minilm", "tasks": tasks}, ["qqp", "mnli"]) == {}


def test_the_table_names_tasks_and_encoders_that_exist():
    for entry in read_yaml("overlaps")["encoders"]:
        for key in entry["tasks"]:
            suite, _, task = key.partition("/")
            assert task in suite_tasks(suite)
        named = [PACKAGES[name] for name in entry["names"] if name in PACKAGES]
        assert named
        assert {package.hub_id for package in named} <= set(entry["names"])


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_built_in_encoder_has_seen_is_known(name):
    reasons = seen_before({"encoder": name, "tasks": {"suite": "glue"}}, ["mnli"])
    assert reasons == {"mnli": ["the encoder was trained on MultiNLI"]}
