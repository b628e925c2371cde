"""What `make test` leaves out repeats a property that it runs as well."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.conformance.table import METHODS
from tests.support.more import (
    COLLECTED,
    EVERY_SETTING,
    LEAVES_OUT,
    by_mark,
    examples,
    function_of,
    is_table,
    methods_of,
    on_diagonal,
    params_of,
    some_of,
)
from tests.support.tiny import FAMILIES
from weft.methods import METHODS as REGISTERED


@pytest.fixture(scope="module")
def functions(request):
    """Test function → its cases that were collected, whatever was selected of them."""
    found = defaultdict(list)
    for item in request.config.stash[COLLECTED]:
        found[function_of(item)].append(item)
    return found


def kept(cases):
    return [case for case in cases if not any(case.get_closest_marker(name) for name in ("more", "slow"))]


def is_slow(cases):
    """Whether `make test` leaves a property out altogether."""
    return all(case.get_closest_marker("slow") for case in cases)


def test_every_property_keeps_a_case(functions):
    gone = [name for name, cases in functions.items() if not kept(cases)]
    assert all(is_slow(functions[name]) for name in gone), gone


def test_every_property_of_families_keeps_two_of_them(functions):
    for name, cases in functions.items():
        families = {params_of(case).get("family") for case in cases} - {None}
        if len(families) > 1 and not is_slow(cases):
            assert len({params_of(case)["family"] for case in kept(cases)}) >= 2, name


def test_every_other_parameter_keeps_a_case(functions):
    """What is left out for its family leaves out no method, length or flag."""
    for name, cases in functions.items():
        if not is_slow(cases) and any("family" in params_of(case) for case in cases):
            for parameter in params_of(cases[0]).keys() - {"family"}:
                values = {repr(params_of(case)[parameter]) for case in cases}
                if is_table(cases):
                    values = {repr(method) for method in methods_of(name)}
                assert {repr(params_of(case)[parameter]) for case in kept(cases)} >= values, (name, parameter)


def test_every_setting_of_a_method_is_kept_by_some_properties(functions):
    """A property keeps a third of them, and not all properties keep the same third."""
    tables = [name for name, cases in functions.items() if is_table(cases)]
    for names, methods in (
        ([name for name in tables if name.startswith(EVERY_SETTING)], METHODS),
        ([name for name in tables if not name.startswith(EVERY_SETTING)], REGISTERED),
    ):
        if len(names) >= 6:  # not where some of the files were collected
            for method in methods:
                assert any(method in methods_of(name) for name in names), method


def test_crossed_parameters_keep_every_value(functions):
    for name, cases in functions.items():
        if cases[0].get_closest_marker("each_value"):
            columns = list(zip(*map(by_mark, cases), strict=True))
            assert len(columns) > 1, f"{name}: nothing is crossed"
            for all_of, of_kept in zip(columns, zip(*map(by_mark, kept(cases)), strict=True), strict=True):
                assert set(of_kept) == set(all_of), name


def test_the_diagonal_meets_every_method_and_every_family():
    pairs = [(method, family) for method in METHODS for family in FAMILIES if on_diagonal(method, family)]
    assert {method for method, _ in pairs} == set(METHODS)
    assert {family for _, family in pairs} == set(FAMILIES)
    assert len(pairs) == len(METHODS)


def test_some_of():
    marked = [case for case in some_of(range(10), 3) if not isinstance(case, int)]
    assert [case.values[0] for case in marked] == [1, 2, 4, 5, 7, 8, 9]
    assert all(mark.name == "more" for case in marked for mark in case.marks)
    (_, named) = some_of([(1, 2), pytest.param(3, 4, id="x")], 1)
    assert (named.values, named.id) == ((3, 4), "x")


def test_fewer_examples_are_drawn_and_never_none(request):
    left_out = LEAVES_OUT in request.config.option.markexpr
    assert examples(50) == (15 if left_out else 50)
    assert examples(1) == 2
