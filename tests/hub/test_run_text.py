"""The run file of a card has no path of the machine it was written on."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.hub.run_text import as_yaml, data_sets, run_settings, without_paths

PARTS = st.text("abXY09_ .-", min_size=1, max_size=8).map(lambda text: f"{text}z")


@given(st.lists(PARTS, min_size=1, max_size=5), st.sampled_from(["/", "~/", "../", "./", "C:\\"]), PARTS)
def test_of_a_path_only_the_last_part_stays(folders, root, name):
    between = "\\" if root.endswith("\\") else "/"
    path = root + between.join([*(f"secret{folder}" for folder in folders), name])
    settings = {
        "tasks": [{"train": path, "also": {"mm": {"validation": path}}}],
        "encoder": f"random:x@{path}",
    }
    text = as_yaml(without_paths(settings))
    assert "secret" not in text
    assert without_paths({"train": path}) == {"train": name.rstrip("/") or "…"}


@pytest.mark.parametrize(
    "text",
    [
        "nyu-mll/glue",
        "minilm",
        "google/bert_base",
        "{a}/{b}",
        "N/A",
        "and / or",
        "https://x.org/a",
        "lora",
        "",
    ],
)
def test_what_is_no_path_stays(text):
    assert without_paths(text) == text


def test_a_path_inside_a_text():
    assert without_paths("see /home/anna/data/x.tsv for more") == "see x.tsv for more"


def test_a_relative_file_too():
    assert without_paths("work/secret/train.jsonl") == "train.jsonl"


def test_trackers_are_left_out_and_data_sets_of_the_hub_are_known(tmp_path):
    run = {
        "encoder": "minilm",
        "tasks": [{"name": "rte", "hub": "nyu-mll/glue"}, {"name": "own", "train": "/home/anna/x.csv"}],
        "train": {"steps": 3, "trackers": [{"use": "wandb", "project": "secret"}]},
    }
    (tmp_path / "run.yaml").write_text("# a private comment\n" + yaml.safe_dump(run))
    settings = run_settings(tmp_path)
    assert "secret" not in as_yaml(settings)
    assert "private" not in as_yaml(settings)
    assert data_sets(settings) == {"rte": "nyu-mll/glue"}


def test_a_run_file_that_cannot_be_read_is_no_part_of_a_card(tmp_path):
    assert run_settings(tmp_path) is None
    (tmp_path / "run.yaml").write_text("[1")
    assert run_settings(tmp_path) is None
