"""The pages of results: what is written to them, and what they keep when runs are added."""

import pytest
import torch
from benchmarks.speed import report
from benchmarks.speed.machine import machine
from benchmarks.speed.report import kept
from benchmarks.speed.results import KEPT, Results, Work


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
