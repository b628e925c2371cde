"""The heat map's numbers, as people read them."""

from __future__ import annotations

import numpy as np

from weft.analysis.plots.heat_map import two_decimals


def test_two_decimals():
    assert [two_decimals(x) for x in (1.0, 0.126, -0.5, -0.001, np.nan)] == [
        "1.00",
        "0.13",
        "-0.50",
        "0.00",
        "–",
    ]
