"""The peak memory of a cell is its own, not that of an earlier cell of the same worker."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from weft.experiments.cell_memory import memory_before, peak_memory

MIB = 1 << 20


@pytest.mark.cpu
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can forget a peak")
def test_the_peak_of_an_earlier_cell_is_forgotten():
    large = np.ones(400 * MIB, np.uint8)
    before = memory_before()
    at_least = peak_memory(before)
    assert at_least >= 400 * MIB
    del large
    before = memory_before()
    small = np.ones(50 * MIB, np.uint8)
    peak = peak_memory(before)
    assert peak <= at_least - 300 * MIB
    assert len(small) == 50 * MIB


@pytest.mark.cpu
def test_it_is_the_memory_of_the_process():
    before = memory_before()
    array = np.ones(100 * MIB, np.uint8)
    assert sys.getsizeof(array) < peak_memory(before) < 100 * 1024 * MIB
