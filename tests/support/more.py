"""What `make test` leaves out: cases that repeat a property in yet another setting (marker `more`).

Every property, that is every test function, keeps some of its cases in `make test`, unless it is marked
`slow`: it needs several processes, a compiler, Ray or a simulation for many seconds. Five rules choose the
cases:

1. Tests that have a parameter `family` keep two encoder families, one of either anatomy: norms after the
   residual sum (`bert`) and before it (`modernbert`). A test without these keeps its first two families.
   With further parameters, the two take turns: each combination of the others keeps one of them.
2. Tests of the whole table of methods and of families keep a diagonal: method number n keeps family number
   n, modulo the number of families. So every method runs on one family, and every family runs several.
3. Each combination of the other parameters keeps at least one family.
4. Tests of all methods of the table keep a third of the methods, each under its own name; further settings
   of a method (`pals-serial`) are left out, but for the tests of methods and families in tests/conformance,
   which keep a third of all settings. Which third depends on the test's name: every method, and every setting
   of it, is kept by several properties.
5. Tests marked `each_value`, whose parameters are crossed, keep each value of each parameter once.

Long lists of cases may say themselves which they keep, by `some_of`, and hypothesis draws fewer examples (see
`examples`). `make test-all` runs everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from tests.conformance.table import METHODS
from tests.support.tiny import FAMILIES
from weft.methods import METHODS as REGISTERED

ANATOMIES = ("bert", "modernbert")
"""The families that a test of families keeps."""


EVERY_SETTING = "tests/conformance/"
"""Where tests of methods and families keep settings of each method, not only the method itself."""

THIRDS = 3
"""A test of all methods keeps one of so many."""


COLLECTED: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()
"""All tests that were collected, before any was deselected."""

LEAVES_OUT = "not more"
"""What is in the marker expression of a run that leaves them out."""

LEFT_OUT: pytest.StashKey[int] = pytest.StashKey()
"""How many of them are marked `more`, where `-m "not more"` leaves them out."""


def some_of(cases: Iterable[Any], keep: int | Collection[Any]) -> list[Any]:
    """All cases as parameters; all but these, or but so many that are evenly spread, are marked `more`.

    The first of evenly spread cases is always kept:

        @pytest.mark.parametrize("length", some_of(range(100), 4))  # make test: 0, 25, 50 and 75
        @pytest.mark.parametrize("name", some_of(SETTINGS, ["plain", "gates"]))
    """
    cases = list(cases)
    if isinstance(keep, int):
        kept = {len(cases) * n // keep for n in range(keep)}
    else:
        kept = {cases.index(case) for case in keep}
    return [case if n in kept else _marked(case) for n, case in enumerate(cases)]


def examples(count: int) -> int:
    """How many examples hypothesis draws: `count` in `make test-all`, a third of them in `make test`.

    For tests that need another number than the profiles of conftest.py, which set 50 and 15.
    """
    return max(2, count * settings.default.max_examples // 50)


def _marked(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.more])
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.more)


def on_diagonal(method: str, family: str, families: Sequence[str] = FAMILIES) -> bool:
    """Whether `make test` runs a method of the conformance table on a family, of these families."""
    return family == families[list(METHODS).index(method) % len(families)]


def mark_more(items: Sequence[pytest.Item]) -> None:
    """Mark by the rules above, over all tests that were collected."""
    functions: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        functions[function_of(item)].append(item)
    for cases in functions.values():
        if "family" in params_of(cases[0]):
            _mark_families(cases)
        elif [_method(case) for case in cases] == list(METHODS):
            _mark_methods(cases)
        elif cases[0].get_closest_marker("each_value"):
            _mark_crossed(cases)


def _mark_families(cases: list[Any]) -> None:
    families = list(dict.fromkeys(params_of(case)["family"] for case in cases))
    if is_table(cases):
        kept = [case for case in cases if on_diagonal(_method(case), params_of(case)["family"], families)]
        _mark_methods(cases)
    else:
        kept = _in_turns(cases, families)
    chosen, combinations = set(map(id, kept)), {_others(case) for case in kept}
    for case in cases:
        if id(case) not in chosen and _others(case) in combinations:
            case.add_marker(pytest.mark.more)
        combinations.add(_others(case))


def _mark_methods(cases: list[Any]) -> None:
    if any(case.get_closest_marker("more") for case in cases):
        return  # it has chosen by itself
    methods = methods_of(function_of(cases[0]))
    for case in cases:
        if _method(case) not in methods:
            case.add_marker(pytest.mark.more)


def methods_of(function: str) -> list[str]:
    """The methods, or their settings, that this test of all methods keeps."""
    every = function.startswith(EVERY_SETTING)
    first = crc32(function.rpartition("::")[2].encode()) % THIRDS
    return [m for m in METHODS if every or m in REGISTERED][first::THIRDS]


def _mark_crossed(cases: list[Any]) -> None:
    """Keep a diagonal: case n has value number n of each parameter, modulo the number of its values."""
    values = [dict.fromkeys(column) for column in zip(*map(by_mark, cases), strict=True)]
    most = max(map(len, values))
    kept = {tuple(list(column)[n % len(column)] for column in values) for n in range(most)}
    for case in cases:
        if by_mark(case) not in kept:
            case.add_marker(pytest.mark.more)


def by_mark(case: Any) -> tuple[tuple[int, ...], ...]:
    """The values of a case, those of one `parametrize` together; by identity: not all can be compared."""
    params, groups = params_of(case), []
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        groups.append([name.strip() for name in names])
    groups += [[name] for name in params if not any(name in group for group in groups)]  # of fixtures
    return tuple(tuple(id(params[name]) for name in group) for group in groups)


def _in_turns(cases: list[Any], families: list[str]) -> list[Any]:
    """The cases of two families; with further parameters one of them for each combination of these."""
    two = [name for name in families if name in ANATOMIES]
    two += [name for name in families if name not in two][: 2 - len(two)]
    combinations = list(dict.fromkeys(map(_others, cases)))
    turn = {others: two[number % len(two)] for number, others in enumerate(combinations)}
    both = len(combinations) == 1
    return [case for case in cases if params_of(case)["family"] in (two if both else (turn[_others(case)],))]


def is_table(cases: Sequence[Any]) -> bool:
    """Whether these cases of a test are of all methods of the conformance table."""
    return {method for case in cases if isinstance(method := _method(case), str)} == set(METHODS)


def _method(case: Any) -> Any:
    return params_of(case).get("name", params_of(case).get("method"))


def _others(case: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, repr(value)) for name, value in params_of(case).items() if name != "family")


def params_of(item: pytest.Item) -> dict[str, Any]:
    """The parameters of a test by name; none where it has none."""
    return getattr(getattr(item, "callspec", None), "params", {})


def function_of(item: pytest.Item) -> str:
    """The property that a test is a case of: its file and function."""
    return item.nodeid.partition("[")[0]
