"""`weft show recipes`."""

from __future__ import annotations

import json

from weft.cli import run
from weft.experiments.recipes import recipe_names


def test_recipes_are_listed_with_their_tables_and_runs(capsys):
    assert run(["show", "recipes"]) == 0
    title, head, *lines = capsys.readouterr().out.splitlines()
    assert "weft compare recipe:NAME tasks.root=DATA" in title
    assert head.split() == ["name", "of", "small", "base", "paper"]
    assert [line.split()[0] for line in lines] == recipe_names()
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["pals-table3"].split()[-3:] == ["92", "105", "54"]
    assert "PALs (Stickland and Murray 2019), Table 3" in by_name["pals-table3"]
    assert by_name["methods"].split()[-3:] == ["185", "-", "-"]


def test_recipes_in_json(capsys):
    assert run(["show", "recipes", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["recipes"]
    assert list(listed) == recipe_names()
    assert listed["sampling"]["runs"] == {"small": 35, "paper": 35}
    assert all("tasks.root=DATA" in entry["about"] for entry in listed.values())
    assert all(entry["title"] and entry["paper"] for entry in listed.values())
