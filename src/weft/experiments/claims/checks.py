"""Checks of claims before anything is trained: the names of variants, tasks and measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import WeftError, did_you_mean
from weft.experiments.claims.functions import FUNCTIONS, MEASURE, OF_DATA, TASK, VARIANT
from weft.experiments.claims.language import ParsedClaim, Series, located, parse_claim
from weft.experiments.measures import MEASURES, VALUES, form_of

if TYPE_CHECKING:
    from weft.experiments.grid import Grid


def check_claim(
    test: str,
    variants: Sequence[str],
    tasks: Sequence[str] | None = None,
    measures: Sequence[str] | None = None,
) -> ParsedClaim:
    """Check a claim's test.

    Args:
        test: the test.
        variants: the names of the variants of its grid.
        tasks: the names of the tasks of its grid; None: they are not checked.
        measures: the measures that the grid takes; None: they are not checked.

    Raises:
        WeftError: with the test, the place, what was found and what was expected.
    """
    claim = parse_claim(test)
    for call in claim.calls:
        kinds = FUNCTIONS[call.function].arguments
        for argument, kind in zip(call.arguments, kinds, strict=False):
            kind = kind.removesuffix("?")
            if isinstance(argument, Series):
                _check_series(test, argument, variants, measures)
            elif kind == VARIANT:
                _check_name(test, str(argument), "variant", variants)
            elif kind == TASK and tasks is not None:
                _check_name(test, str(argument), "task", tasks)
            elif kind == MEASURE:
                _check_measure(test, str(argument), measures)
                _check_tasks_of(test, str(argument), call.arguments[2:])
    return claim


def check_claims(grid: Grid, tasks: Sequence[str] | None = None) -> list[ParsedClaim]:
    """Check all claims of a grid; the first mistake is raised, with the grid's name.

    Args:
        grid: the grid.
        tasks: the names of its tasks, if they are known.
    """
    from weft.experiments.cells import variants_of

    names = [variant.name for variant in variants_of(grid)]
    parsed = []
    for number, claim in enumerate(grid.claims):
        try:
            parsed.append(check_claim(claim.test, names, tasks, grid.measures))
        except WeftError as wrong:
            raise WeftError(f"{grid.source}: claims.{number}: {wrong}") from None
    return parsed


def _check_series(test: str, series: Series, variants: Sequence[str], measures: Sequence[str] | None) -> None:
    if series.variant is not None:
        _check_name(test, series.variant, "variant", variants)
    elif len(variants) > 1 and series.name not in OF_DATA:
        problem = (
            f"{series.name} of which variant? expected {series.name}(VARIANT), with one of: "
            f"{', '.join(variants)}"
        )
        raise located(test, _place(test, series.name), problem)
    if series.name in VALUES:
        _check_measure(test, series.name, measures)


def _check_measure(test: str, name: str, measures: Sequence[str] | None) -> None:
    _check_name(test, name, "measure", list(VALUES))
    if measures is not None and VALUES[name] not in measures:
        problem = f"{name!r} is not measured; expected measures: [{VALUES[name]}] in the grid"
        raise located(test, _place(test, name), problem)
    assert VALUES[name] in MEASURES


def _check_tasks_of(test: str, name: str, tasks: Sequence[object]) -> None:
    """A value of a pair is one of two tasks, a value per task one of one task; each also has a mean."""
    count = {"pair": 2, "task": 1}.get(form_of(name), 0)
    if len(tasks) in (0, count):
        return
    forms = {2: f"{name}, TASK, TASK", 1: f"{name}, TASK", 0: name}
    found = f"{len(tasks)} task{'s' * (len(tasks) > 1)}"
    problem = f"{name} with {found}; expected measure(VARIANT, {forms[count]})"
    raise located(test, _place(test, name), problem + (", or no task for the mean" if count else ""))


def _check_name(test: str, name: str, what: str, known: Sequence[str]) -> None:
    if name not in known:
        problem = f"there is no {what} {name!r}; {did_you_mean(name, known)}"
        raise located(test, _place(test, name), problem)


def _place(test: str, name: str) -> int:
    """The position of a name; of one that occurs inside a longer one, that of its quoted form first."""
    for form in (f"'{name}'", f'"{name}"', f"{name})", f"{name},", name):
        if form in test:
            return test.index(form)
    return 0
