"""The ranges of versions in pyproject.toml: stated, true of what is installed, tested at their floors."""

from __future__ import annotations

import os
from importlib.metadata import version

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.support.floors import PINNED, floor_of, floors, requirements

AT_FLOORS = os.environ.get("WEFT_FLOORS") == "1"
"""Set by `make test-floors`, in whose environment the lowest versions are installed."""


@pytest.mark.parametrize("package", requirements())
def test_every_package_has_a_floor_and_the_installed_one_is_in_its_range(package):
    versions = requirements()[package]
    assert floor_of(versions) is not None
    assert Version(version(package)) in SpecifierSet(versions)


def test_transformers_has_an_upper_bound():
    """weft relies on its internals (tests/encoder/test_transformers.py)."""
    versions = SpecifierSet(requirements()["transformers"])
    assert Version("6.0") not in versions


def test_only_what_is_large_is_not_tested_at_its_floor():
    assert set(requirements()) - set(floors()) == set(PINNED)


@pytest.mark.skipif(not AT_FLOORS, reason="the lowest versions are not installed; make test-floors")
@pytest.mark.parametrize(("package", "floor"), floors().items())
def test_the_floor_is_installed(package, floor):
    assert Version(version(package)) == Version(floor)


def test_floors_of_ranges():
    assert floor_of(">=0.26,!=0.27.*") == "0.26"
    assert floor_of(">= 5.1, <6") == "5.1"
    assert floor_of("<3") is None
