"""A few cases of every area: weft accepts or refuses each. `make fuzz` runs thousands."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.apart import run_apart
from tests.fuzz.areas import AREAS
from tests.fuzz.base import Base
from tests.fuzz.child import fingerprint
from tests.fuzz.runner import Numbered
from tests.fuzz.table import failures_of
from tests.support.more import examples

CASES = examples(10)
"""The number of cases of each area."""

BUILT = examples(7)
"""Of how many of them is tested that they are built alike."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """The results of the cases, and the folder with the undamaged files."""
    folder = tmp_path_factory.mktemp("fuzz")
    cases = [Numbered(area, number) for area in AREAS for number in range(CASES)]
    builds = {area: build for area, (build, _) in AREAS.items()}
    return run_apart(builds, cases, folder, anew=0), folder


def test_every_input_is_accepted_or_refused(fuzzed):
    results, _ = fuzzed
    assert len(results) == CASES * len(AREAS)
    failures = [result for result in results if not result.right]
    assert not failures, "\n" + failures_of(failures)


def test_some_are_accepted_and_some_refused(fuzzed):
    """Else the cases would test little: damage that nothing notices, or that is noticed at once."""
    results, _ = fuzzed
    kinds = [result.kind for result in results]
    assert min(kinds.count("accepted"), kinds.count("refused")) > len(kinds) / 10


@pytest.mark.parametrize("area", AREAS)
def test_a_case_is_a_function_of_its_number(area, fuzzed, tmp_path):
    base = Base(fuzzed[1] / "base")

    def built(number: int, folder: Path) -> tuple[object, str]:
        work = folder / "work"
        work.mkdir(parents=True)
        case = AREAS[area][0](Random(f"1 {area} {number}"), base, work)
        return case.arguments, fingerprint(work)

    once = [built(number, tmp_path / "a" / str(number)) for number in range(BUILT)]
    again = [built(number, tmp_path / "b" / str(number)) for number in range(BUILT)]
    assert once == again
    assert len(set(map(str, once))) == BUILT
