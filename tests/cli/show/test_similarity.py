"""`weft show similarity`, in this process."""

from __future__ import annotations

import json
import re
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import weft
from tests.support.tiny import scramble
from tests.support.tiny_run import assert_refused, save_encoder
from weft.analysis.similarity import methods_with_similarity, similarity
from weft.analysis.similarity_order import ordered
from weft.cli import run

MORRIS = {"use": "morris", "rank": 3, "bias_rank": 2}
PALS = {"use": "pals", "d_s": 12, "heads": 3}


def tasks(*names):
    return [weft.Task(name, labels=("no", "yes")) for name in names]


THREE = tasks("rte", "cola", "qqp")
MODELS = {
    "morris": (MORRIS, THREE),
    "mine": ("lora_bitfit", tasks("cat", "same")),
    "one": (MORRIS, THREE[:1]),
    "pals": (PALS, THREE),
    "full": ("full", THREE),
    "separate": ("separate", THREE),
    "shared": ({"use": "lora", "share": "all"}, THREE),
    "many": ({"use": "lora", "rank": 1, "layers": 0}, tasks(*(f"a_rather_long_name_{n}" for n in range(40)))),
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A folder of bundles, as runs hold them; `empty` is a folder without one."""
    folder = tmp_path_factory.mktemp("similarity")
    encoder = save_encoder(folder / "encoder")
    for name, (method, own) in MODELS.items():
        scramble(weft.Model(encoder, own, method, max_length=24)).save(folder / name / "bundle")
    weft.Model(encoder, THREE, MORRIS, max_length=24).save(folder / "fresh" / "bundle")
    model = scramble(weft.Model(encoder, THREE, MORRIS, max_length=24))
    with torch.no_grad():
        for site, adapter in model.placements:
            name = "B" if "B" in adapter.stacks else "E"
            adapter.get_parameter(name)[1] = 0
            if site.key == "0/query":
                adapter.get_parameter(name)[:] = 0
    model.save(folder / "idle" / "bundle")
    (folder / "empty").mkdir()
    return folder


def said(capsys, bundle, *arguments):
    capsys.readouterr()
    code = run(["show", "similarity", str(bundle), *map(str, arguments)])
    return code, capsys.readouterr()


def table(text, title):
    """{row: {column: cell}} of the table below a title."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(title))
    head, *rest = [line.split() for line in lines[at + 1 :]]
    rows = rest[: next((n for n, row in enumerate(rest) if len(row) != len(head)), len(rest))]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def test_tables_hold_the_averages_in_the_chosen_order(bundles, capsys):
    found = similarity(weft.load(bundles / "morris"))
    for order in ("clustered", "given", "paper", "qqp, rte,cola"):
        code, told = said(capsys, bundles / "morris", "--order", order)
        assert (code, told.err) == (0, "")
        wanted = tuple(order.replace(" ", "").split(",")) if "," in order else order
        for part, title in (("weight", "weights (mean of 4 sites)"), ("bias", "biases (mean of 12 sites)")):
            cells = table(told.out, f"similarity of updates: {title}")
            assert tuple(cells) == ordered(found, wanted).tasks
            for s, row in cells.items():
                assert list(row) == list(cells)
                for t, cell in row.items():
                    expected = found.average(part)[found.tasks.index(s), found.tasks.index(t)]
                    assert re.fullmatch(r"-?\d\.\d\d", cell)
                    assert float(cell) == pytest.approx(expected, abs=0.0051)
    assert list(cells) == ["qqp", "rte", "cola"]


def test_the_papers_order_is_that_of_its_blocks(bundles, capsys):
    code, told = said(capsys, bundles / "morris", "--order", "paper", "--json")
    assert code == 0
    assert json.loads(told.out)["order"] == ["cola", "qqp", "rte"]


def test_json_is_the_similarity_of_the_model(bundles, capsys):
    for place in (bundles / "morris", bundles / "morris" / "bundle"):
        code, told = said(capsys, place, "--json", "--order", "cola,qqp,rte")
        assert (code, told.err) == (0, "")
        found = json.loads(told.out)
        assert list(found) == ["tasks", "order", "average", "by_kind", "by_layer", "by_site"]
        assert found["tasks"] == ["rte", "cola", "qqp"]
        assert found["order"] == ["cola", "qqp", "rte"]
        expected = similarity(weft.load(place)).in_order(found["order"])
        assert list(found["by_kind"]) == expected.kinds
        assert list(found["by_layer"]) == ["0", "1"]
        assert list(found["by_site"]) == [one.site.key for one in expected.sites]
        pairs = [(found["average"], {})]
        pairs += [(both, {"kind": kind}) for kind, both in found["by_kind"].items()]
        pairs += [(both, {"layer": int(layer)}) for layer, both in found["by_layer"].items()]
        for key, both in found["by_site"].items():
            layer, kind = key.split("/")
            pairs.append((both, {"kind": kind, "layer": int(layer)}))
        for both, which in pairs:
            for part in ("weight", "bias"):
                matrix = expected.average(part, **which)
                if matrix is None:
                    assert both[part] is None
                else:
                    np.testing.assert_allclose(both[part], matrix, rtol=0, atol=1e-6)
        assert found["by_site"]["0/ffn_out"]["weight"] is None


def test_undefined_entries(bundles, capsys):
    code, told = said(capsys, bundles / "idle")
    assert code == 0
    assert told.err == "note: all updates of cola are zero here: no similarity to it is defined\n"
    cells = table(told.out, "similarity of updates: weights")
    assert cells["cola"] == dict.fromkeys(cells, "–")
    assert {row["cola"] for row in cells.values()} == {"–"}
    assert cells["rte"]["rte"] == "1.00"
    code, told = said(capsys, bundles / "idle", "--json", "--order", "given")
    found = json.loads(told.out)  # NaN would not be read
    assert found["average"]["weight"][1] == [None] * 3
    assert found["average"]["weight"][0][0] == 1
    assert found["by_site"]["0/query"]["weight"] == [[None] * 3] * 3
    code, told = said(capsys, bundles / "fresh")
    assert code == 0
    assert "the updates of all tasks are zero here" in told.err
    assert "1.00" not in told.out


def test_shared_updates_are_told(bundles, capsys):
    code, told = said(capsys, bundles / "shared")
    assert code == 0
    assert (
        told.err == "note: all tasks share one update of the weights, so that their similarity in it is 1\n"
    )
    cells = table(told.out, "similarity of updates: weights")
    assert {cell for row in cells.values() for cell in row.values()} == {"1.00"}
    assert "biases" not in told.out


def test_sites_and_layers(bundles, capsys):
    found = similarity(weft.load(bundles / "morris"))
    code, told = said(capsys, bundles / "morris", "--sites", "ffn_out, query", "--order", "given")
    assert code == 0
    titles = [line.strip() for line in told.out.splitlines() if line.startswith("similarity")]
    assert titles == [
        "similarity of updates: ffn_out, biases (mean of 2 layers)",
        "similarity of updates: query, weights (mean of 2 layers)",
        "similarity of updates: query, biases (mean of 2 layers)",
    ]
    cells = table(told.out, titles[1])
    assert float(cells["rte"]["qqp"]) == pytest.approx(found.average("weight", "query")[0, 2], abs=0.0051)
    code, told = said(capsys, bundles / "morris", "--sites", "query", "--layers", "1", "--json")
    assert list(json.loads(told.out)["by_site"]) == ["1/query"]
    code, told = said(capsys, bundles / "morris", "--layers", "top half", "--json")
    assert list(json.loads(told.out)["by_layer"]) == ["1"]


def test_wide_tables_are_split_and_no_number_is_cut(bundles, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, told = said(capsys, bundles / "many", "--order", "given")
    assert code == 0
    lines = [line.rstrip() for line in told.out.splitlines()]
    assert max(map(len, lines)) <= 120
    heads = [line.split()[1:] for line in lines if line.startswith("task ")]
    assert len(heads) > 1
    assert [number for head in heads for number in head] == [str(n) for n in range(40)]
    rows = [line.split() for line in lines if ":a_rather" in line]
    assert len(rows) == 40 * len(heads)
    cells = [cell for row in rows for cell in row[1:]]
    assert len(cells) == 40 * 40
    assert all(re.fullmatch(r"-?[01]\.\d\d", cell) for cell in cells)
    assert rows[0][:2] == ["0:a_rather_long_name_0", "1.00"]
    assert cells.count("1.00") == 40


def test_output_that_knows_ascii_alone(bundles, tmp_path, monkeypatch):
    import sys

    with (tmp_path / "out").open("w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert run(["show", "similarity", str(bundles / "idle")]) == 0
    assert table((tmp_path / "out").read_text(), "similarity")["cola"]["cola"] == "-"


def test_plots(bundles, capsys, tmp_path):
    svg, png = tmp_path / "a [red].svg", tmp_path / "a.png"
    code, told = said(capsys, bundles / "morris", "--plot", svg)
    assert (code, told.err) == (0, "")
    assert told.out.endswith(f"written: {svg}\n")
    texts = [element.text for element in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"rte", "cola", "qqp", "1.00", "weights (mean of 4 sites)"} <= set(texts)
    once = svg.read_bytes()
    code, told = said(capsys, bundles / "morris", "--plot", svg, "--json")
    assert code == 0
    assert json.loads(told.out)["tasks"]  # nothing else on standard output
    assert f"written: {svg}" in told.err
    assert svg.read_bytes() == once
    code, told = said(capsys, bundles / "morris", "--plot", png, "--sites", "query")
    assert code == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_an_encoder_that_moved_can_be_pointed_to(bundles, capsys, tmp_path):
    shutil.copytree(bundles / "encoder", tmp_path / "moved")
    code, _ = said(capsys, bundles / "mine", "--encoder", tmp_path / "moved")
    assert code == 0


CALLS = {
    "one task": (["one"], ["one task, rte", "at least two tasks"]),
    "no updates": (["pals"], ["method, pals,", *methods_with_similarity()]),
    "no adapters": (["full"], ["method, full,", "no updates to compare"]),
    "separate": (["separate"], ["separate", "one encoder per task", "morris"]),
    "no order": (["morris", "--order", "clusterd"], ["'clusterd'", "did you mean 'clustered'"]),
    "a task twice": (["morris", "--order", "rte,rte,cola"], ["'rte' twice"]),
    "a task too few": (["morris", "--order", "rte,cola"], ["all 3 tasks", "it lacks qqp"]),
    "another task": (["morris", "--order", "rte,cola,qpq"], ["'qpq'", "did you mean 'qqp'"]),
    "no paper": (["mine", "--order", "paper"], ["'paper'", "glue", "'cat' is in none", "cat,same"]),
    "no site": (["morris", "--sites", "qery"], ["'qery'", "did you mean 'query'"]),
    "a site that is left alone": (["morris", "--sites", "norm_1"], ["'norm_1' is not updated", "query"]),
    "layers outside": (["morris", "--layers", "5"], ["'5' is outside the encoder", "0-1"]),
    "layers without": (["many", "--layers", "1"], ["updates nothing in layers 1", "0/query"]),
    "no bundle": (["empty"], ["holds no bundle"]),
    "nowhere": (["nowhere"], ["nowhere holds no bundle"]),
    "another format": (["nowhere", "--plot", "a.pdf"], ["--plot a.pdf", ".svg or .png"]),
    "no format": (["nowhere", "--plot", "a"], ["--plot a", ".svg or .png"]),
    "no folder": (["nowhere", "--plot", "no/a.svg"], ["--plot no/a.svg", "no folder no"]),
    "a folder": (["nowhere", "--plot", "."], ["this is a folder"]),
    "no encoder": (["morris", "--encoder", "."], ["has no config.json"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case, bundles, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (bundle, *arguments), messages = CALLS[case]
    assert_refused(*said(capsys, bundles / bundle, *arguments), messages)
    assert list(tmp_path.iterdir()) == []
