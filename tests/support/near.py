"""Answers of a model that are equal but for rounding."""

from __future__ import annotations

from typing import Any

import pytest


def assert_near(found: Any, expected: Any, within: float = 1e-5) -> None:
    """Answers are nested lists and dicts: all the same, numbers to `within`."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_near(found[key], expected[key], within)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other, within)
    else:
        assert found == (pytest.approx(expected, abs=within) if isinstance(expected, float) else expected)
