"""Packed records: tables from one file, without data, encoder or training."""

from __future__ import annotations

import json
import shutil
import zipfile

import pytest

from tests.support.tiny_grid import results, run_here, write_grid
from weft.errors import WeftError
from weft.experiments.grid import load_grid
from weft.experiments.packing import pack, unpacked
from weft.experiments.records import CELLS, Records
from weft.experiments.results import results_of
from weft.experiments.run_grid import run_grids

TEXT = "seeds: 3\naxes: {method: [full, lora]}\nbaseline: full\n"
TUNED = "seeds: 2\nvariants: {a: {}}\ntune: {over: {train.lr: [1.0e-9, 1.0e-2]}, seeds: 1}\n"


def distinct(compared):
    """The number of records: a trial with the chosen value is a run of its variant, too."""
    return len({planned.identity for planned in compared.plan.cells.values()})


@pytest.fixture(scope="module", params=[TEXT, TUNED], ids=["plain", "tuned"])
def packed(request, tmp_path_factory, warm_workers):
    """A grid that has run, the file of its records, and a folder with the grid and without its data."""
    folder = tmp_path_factory.mktemp("packed")
    compared = run_here(write_grid(folder, request.param, steps=3), folder / "out", jobs=2)
    assert pack(compared.plan, folder / "all.records") == distinct(compared)
    bare = tmp_path_factory.mktemp("bare")
    for name in ("grid.yaml", "run.yaml"):
        shutil.copy(folder / name, bare)
    return compared, folder / "all.records", bare / "grid.yaml"


def test_tables_need_no_data(packed, tmp_path):
    compared, file, grid = packed
    there = unpacked(load_grid(grid), file, tmp_path)
    assert there.ran == 0
    assert results(there) == results(compared)
    assert there.choices == compared.choices
    assert results_of(there).to_dict() == results_of(compared).to_dict()


def test_an_encoder_may_have_another_name(packed, tmp_path):
    compared, file, grid = packed
    there = unpacked(load_grid(grid, ["encoder=elsewhere/minilm"]), file, tmp_path)
    assert results(there) == results(compared)


def test_records_of_other_settings_are_refused(packed, tmp_path):
    _, file, grid = packed
    with pytest.raises(WeftError, match=r"has train\.steps 3, and .*grid\.yaml has 5; repeat the settings"):
        unpacked(load_grid(grid, ["train.steps=5"]), file, tmp_path)
    assert not (tmp_path / "records").exists()


def test_cells_that_are_not_in_the_file_are_missing(packed, tmp_path):
    compared, file, grid = packed
    there = unpacked(load_grid(grid, ["seeds=4"]), file, tmp_path)
    new = len(there.plan.cells) - len(compared.plan.cells)
    assert new > 0
    assert results_of(there).missing == new


def test_a_file_of_another_grid(packed, tmp_path):
    _, file, grid = packed
    shutil.copy(grid.parent / "run.yaml", tmp_path)
    other = tmp_path / "grid.yaml"
    other.write_text("base: run.yaml\nvariants: {other: {}}\n")
    with pytest.raises(WeftError, match="has no run of"):
        unpacked(load_grid(other), file, tmp_path / "out")


def test_without_records_nothing_is_written(packed, tmp_path):
    from weft.experiments.plan import Plan

    compared, _, _ = packed
    empty = Plan(compared.plan.grid, tmp_path / "out")
    assert pack(empty, tmp_path / "all.records") == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [None, b"{", b"[]", b'{"cells": 3}', b'{"cells": {"a": {"identity": 3}}}']
)
def test_a_file_without_its_list_still_unpacks(packed, tmp_path, content):
    compared, file, grid = packed
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(tmp_path / "old", "w") as old:
        for name in archive.namelist():
            if name != CELLS:
                old.writestr(name, archive.read(name))
        if content is not None:
            old.writestr(CELLS, content)
    with pytest.raises(WeftError, match="has no list of its runs; write the file again"):
        unpacked(load_grid(grid), tmp_path / "old", tmp_path / "out")
    assert Records(tmp_path / "out").unpack(tmp_path / "old")[0] == distinct(compared)


def test_the_file_names_no_folder_of_the_machine(packed):
    compared, file, _ = packed
    with zipfile.ZipFile(file) as archive:
        text = archive.read(CELLS).decode()
        listed = json.loads(text)["cells"]
    assert list(listed) == list(compared.plan.cells)
    assert str(compared.plan.out.parent) not in text


@pytest.fixture(scope="module")
def two(tmp_path_factory, warm_workers):
    """Two grids that share a run, and the file of their records."""
    folder = tmp_path_factory.mktemp("two")
    first = load_grid(
        write_grid(folder, "seeds: 2\nvariants: {run: {method: full}}\n", steps=3).rename(
            folder / "first.yaml"
        )
    )
    second = load_grid(write_grid(folder, TEXT, steps=3).rename(folder / "second.yaml"))
    compared = run_grids([first, second], folder / "out", jobs=2, device="cpu")
    assert (
        pack([each.plan for each in compared], folder / "all.records") == 6
    )  # two runs of the first are shared
    return compared, folder / "all.records"


def test_records_of_several_grids_in_one_file(two, tmp_path):
    compared, file = two
    for each in compared:
        there = unpacked(each.plan.grid, file, tmp_path / "out")
        assert results(there) == results(each)
        assert results_of(there, folder=tmp_path).to_dict() == results_of(each, folder=tmp_path).to_dict()
    other = tmp_path / "third.yaml"
    shutil.copy(file.parent / "run.yaml", tmp_path)
    other.write_text("base: run.yaml\n")
    with pytest.raises(WeftError, match="has no runs of 'third'; it has those of first, second"):
        unpacked(load_grid(other), file, tmp_path / "out")


def test_a_grid_without_a_run_yet_is_in_a_file_of_several(two, tmp_path):
    """Pages are made while other grids of the file are still to be trained."""
    from weft.experiments.plan import Plan

    compared, file = two
    new = load_grid(file.parent / "second.yaml", ["train.lr=1.0e-3"])
    plans = [compared[0].plan, Plan(new, file.parent / "out")]
    assert pack(plans, tmp_path / "all.records") == 2
    there = unpacked(new, tmp_path / "all.records", tmp_path / "out")
    assert not there.records
    assert results_of(there).missing == 6
