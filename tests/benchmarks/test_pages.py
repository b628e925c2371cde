"""The pages of results: what is written to them, and what they keep when runs are added."""

import json

import pytest
import torch
from benchmarks.experiments.methods_page import RESULTS, memory_of, page
from benchmarks.experiments.methods_runs import merged
from benchmarks.speed import report
from benchmarks.speed.machine import machine
from benchmarks.speed.report import kept
from benchmarks.speed.results import KEPT, Results, Work


def found(*runs, **more):
    known = {
        "setup": {"steps": 5},
        "metrics": {"a": "accuracy"},
        "rows": {"reported": {"a": 3}},
        "failed": [],
    }
    return {
        **known,
        "runs": [{"row": row, "lr": lr, "score": score} for row, lr, score in runs],
        "failed": [],
        **more,
    }


def test_new_runs_stand_beside_the_old_ones_and_replace_their_like():
    old = found(("full", 1e-4, 1), ("full", 3e-4, 2), remarks=["kept"])
    together = merged(old, found(("full", 3e-4, 9), ("lora", 1e-3, 4)))
    assert [(r["row"], r["lr"], r["score"]) for r in together["runs"]] == [
        ("full", 1e-4, 1),
        ("full", 3e-4, 9),
        ("lora", 1e-3, 4),
    ]
    assert together["remarks"] == ["kept"]


def test_a_run_that_ended_at_last_has_not_failed():
    failed = [{"row": "full", "lr": 1e-4, "error": "killed"}]
    assert merged(found(failed=failed, remarks=[]), found(("full", 1e-4, 1)))["failed"] == []
    assert merged(found(("lora", 1e-3, 4), remarks=[]), found(failed=failed))["failed"] == failed


def test_runs_with_other_settings_are_refused():
    with pytest.raises(SystemExit, match="setup differs"):
        merged(found(remarks=[]), found(setup={"steps": 6}))


def test_memory_is_of_a_run_that_was_measured():
    measured = [("full", None), ("full", 2**31), ("lora", None)]
    runs = [{"method": method, "bytes": count} for method, count in measured]
    assert memory_of(runs[0], runs) == "2.00"
    assert memory_of(runs[2], runs) == "–"


def results(ms, *names, gpu="a"):
    row = {"variant": "x", "ms": ms}
    works = [Work("s", name, "x", "cost", {}, [row]) for name in names]
    return Results({**machine(torch.device("cpu")), "gpu": gpu, "cuda": "1"}, {}, works=works)


def test_a_later_run_replaces_its_own_pieces_of_work_alone(tmp_path):
    kept(results(1.0, "one", "two"), tmp_path)
    kept(results(2.0, "two", "three"), tmp_path)
    again = Results.read(tmp_path / "bench-cpu.json")
    assert {work.name: work.ms("x") for work in again.works} == {"one": 1.0, "two": 2.0, "three": 2.0}
    kept(results(3.0, "four"), tmp_path, anew=True)
    assert [work.name for work in Results.read(tmp_path / "bench-cpu.json").works] == ["four"]


def test_figures_of_two_machines_are_not_mixed(tmp_path):
    kept(results(1.0, "one"), tmp_path)
    with pytest.raises(SystemExit, match="another machine"):
        kept(results(1.0, "one", gpu="b"), tmp_path)


def test_the_page_of_methods_is_what_its_writer_makes():
    found = json.loads((RESULTS / "methods.json").read_text(encoding="utf-8"))
    assert page(found) == (RESULTS / "methods.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_tables_of_speed_are_what_their_writer_makes(device, tmp_path, monkeypatch):
    """Also that the page has the marks between which they are written."""
    text = report.PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "speed.md"
    copy.write_text(text.replace("| bare encoder |", "| another |"), encoding="utf-8")
    monkeypatch.setattr(report, "PAGE", copy)
    monkeypatch.setattr(report, "PICTURES", tmp_path)
    report.write_page(Results.read(KEPT / f"bench-{device}.json"))
    begin, end = f"<!-- figures: {device} -->", f"<!-- end: {device} -->"
    written = copy.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    assert written == text.partition(begin)[2].partition(end)[0]
    assert "| bare encoder |" in written
