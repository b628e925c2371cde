"""Damaged bundles, run folders and caches, as commands read them: noticed, repaired, or without effect.

A few cases here; WEFT_DAMAGE=full runs 100 bundles, 60 run folders and 200 flipped bits.
"""

from __future__ import annotations

import os

import pytest

from tests.support.damage import HARMLESS, NOTICED, REPAIRED
from tests.support.damaged import (
    counted,
    damaged_bundles,
    damaged_caches,
    damaged_runs,
    failures,
    flipped_bits,
)

FULL = os.environ.get("WEFT_DAMAGE") == "full"
SEED = int(os.environ.get("WEFT_SEED", "0"))


@pytest.fixture(autouse=True)
def _seen(capsys):
    """With the full numbers, the counts are shown."""
    yield
    if FULL:
        with capsys.disabled():
            print(capsys.readouterr().out)


def test_damaged_bundles(tmp_path):
    cases = damaged_bundles(tmp_path, 100 if FULL else 10, SEED)
    print("bundles", counted(cases))
    assert failures(cases) == []
    assert counted(cases)[NOTICED] >= 0.9 * len(cases)


def test_damaged_runs(tmp_path):
    cases = damaged_runs(tmp_path, 60 if FULL else 6, SEED)
    print("runs", counted(cases))
    assert failures(cases) == []
    assert counted(cases)[REPAIRED] >= len(cases) // 2


def test_damaged_caches(tmp_path):
    cases = damaged_caches(tmp_path, 100 if FULL else 20, SEED)
    print("caches", counted(cases))
    assert failures(cases) == []
    assert counted(cases)[REPAIRED] >= 0.8 * len(cases)


def test_flipped_bits(tmp_path):
    areas = flipped_bits(tmp_path, 200 if FULL else 12, SEED)
    for area, cases in areas.items():
        print("flipped bits in", area, counted(cases))
        assert failures(cases) == []
    assert counted(areas["bundles"])[HARMLESS] <= 1
    assert counted(areas["caches"])[REPAIRED] == len(areas["caches"])
