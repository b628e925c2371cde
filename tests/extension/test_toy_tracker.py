"""docs/extension.md, "A tracker": the toy writes the numbers of the log into a csv file."""

from __future__ import annotations

import csv
import json

import pytest

from tests.extension.recipes import follow
from tests.support.tiny_run import write_run
from weft import cli

pytestmark = pytest.mark.usefixtures("token_cache")


def test_it_gets_the_numbers_of_the_log(tmp_path, monkeypatch):
    follow("A tracker", "my_tracker", folder=tmp_path, monkeypatch=monkeypatch)
    out = tmp_path / "out"
    file = write_run(tmp_path, steps=8, baselines=False, trackers=[{"use": "csv_file", "file": "x.csv"}])
    assert cli.run(["train", str(file), "--out", str(out), "--quiet"]) == 0
    with (out / "x.csv").open(newline="") as stream:
        rows = [(int(step), float(value)) for _, step, name, value in csv.reader(stream) if name == "step/lr"]
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert rows == [(line["step"], line["lr"]) for line in lines if line["event"] == "step"]
