"""Matches regular expressions of strangers in linear time.

Python's `re` tries one way to match after the other, and `(a+)+b` has exponentially many. Here the pattern
becomes a list of instructions, and all ways are followed at once, character by character (Thompson 1968): a
text of n characters and a pattern of m instructions cost O(n·m). Python's own parser reads the pattern, so
that it means what it means to `re`. What cannot be matched in this way (lookaround, references to groups,
possessive repetition) and flags are refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

INSTRUCTIONS = 2000
"""The longest program; `a{500}` has 500 instructions."""
LONGEST = 1000
"""The longest pattern, in characters."""
LONGEST_TEXT = 2000
"""The longest text, in characters; the path of a module has about 60."""


class PatternError(ValueError):
    """A pattern is not a regular expression, or not one that is matched in linear time."""


@dataclass(frozen=True)
class _Step:
    """One instruction.

    Attributes:
        accepts: for a step that reads a character: whether it accepts it.
        at: for a step that reads nothing: whether it may pass at a position of a text.
        next: the numbers of the instructions that follow; none after the last one.
    """

    accepts: Callable[[str], bool] | None
    at: Callable[[str, int], bool] | None
    next: tuple[int, ...]


@lru_cache(maxsize=1024)
def linear_pattern(pattern: str) -> LinearPattern:
    """Compile a pattern.

    Raises:
        PatternError: with what is wrong.
    """
    if len(pattern) > LONGEST:
        raise PatternError(f"it has {len(pattern):,} characters; expected at most {LONGEST:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # on `[[`, whose meaning may change
            tree = import_module("re._parser").parse(pattern)
        return LinearPattern(_Compiler().program(tree))
    except (re.error, OverflowError) as wrong:
        raise PatternError(str(wrong)) from None
    except RecursionError:
        raise PatternError("its groups are nested too deeply") from None


class LinearPattern:
    """A compiled pattern.

    Args:
        program: its instructions; the first one is where it begins.
    """

    def __init__(self, program: list[_Step]) -> None:
        self.program = program

    def matches(self, text: str) -> bool:
        """Whether the pattern matches at the beginning of a text, as `re.match` does.

        Raises:
            PatternError: the text is too long.
        """
        if len(text) > LONGEST_TEXT:
            raise PatternError(f"a text of {len(text):,} characters; expected at most {LONGEST_TEXT:,}")
        reached = {0}
        for position in range(len(text) + 1):
            waiting, ended = self._follow(reached, text, position)
            if ended:
                return True
            if position == len(text):
                break
            character = text[position]
            reached = {
                following
                for number in waiting
                if (accepts := self.program[number].accepts) is not None and accepts(character)
                for following in self.program[number].next
            }
        return False

    def _follow(self, reached: set[int], text: str, position: int) -> tuple[set[int], bool]:
        """Pass all steps that read nothing; return those that read a character, and whether it ends."""
        waiting: set[int] = set()
        seen: set[int] = set()
        stack = list(reached)
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            step = self.program[number]
            if step.accepts is not None:
                waiting.add(number)
            elif step.at is None or step.at(text, position):
                if not step.next:
                    return waiting, True
                stack += step.next
        return waiting, False


class _Compiler:
    """Makes instructions of a parsed pattern, from its end to its beginning: each knows what follows it."""

    def __init__(self) -> None:
        self.steps: list[_Step | None] = []

    def program(self, tree: Any) -> list[_Step]:
        if tree.state.flags & ~re.UNICODE:
            raise PatternError("flags are not supported")
        end = self._add(_Step(None, None, ()))
        start = self._sequence(tree, end)
        # numbered from the beginning: `matches` begins with 0
        order = {start: 0}
        for number in range(len(self.steps)):
            order.setdefault(number, len(order))
        program: list[Any] = [None] * len(order)
        for number, step in enumerate(self.steps):
            assert step is not None, "every loop is closed"
            program[order[number]] = _Step(step.accepts, step.at, tuple(order[n] for n in step.next))
        return program

    def _add(self, step: _Step | None) -> int:
        if len(self.steps) >= INSTRUCTIONS:
            raise PatternError("it is too large: it repeats too much")
        self.steps.append(step)
        return len(self.steps) - 1

    def _sequence(self, tree: Any, following: int) -> int:
        for operation, argument in reversed(list(tree)):
            following = self._one(str(operation), argument, following)
        return following

    def _one(self, operation: str, argument: Any, following: int) -> int:
        if operation == "BRANCH":
            starts = tuple(self._sequence(branch, following) for branch in argument[1])
            return self._add(_Step(None, None, starts))
        if operation == "SUBPATTERN":
            _, added, removed, inner = argument
            if added or removed:
                raise PatternError("flags are not supported")
            return self._sequence(inner, following)
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = argument
            return self._repeat(least, most, inner, following)
        if operation == "AT":
            return self._add(_Step(None, _position(str(argument)), (following,)))
        return self._add(_Step(_character(operation, argument), None, (following,)))

    def _repeat(self, least: int, most: Any, inner: Any, following: int) -> int:
        start = following
        if str(most) == "MAXREPEAT":
            start = self._add(None)
            body = self._sequence(inner, start)
            self.steps[start] = _Step(None, None, (body, following))
        else:
            for _ in range(min(most - least, INSTRUCTIONS + 1)):
                start = self._add(_Step(None, None, (self._sequence(inner, start), following)))
        for _ in range(min(least, INSTRUCTIONS + 1)):
            start = self._sequence(inner, start)
            self._add(_Step(None, None, (start,)))  # counts towards the limit even if `inner` is empty
        return start


def _position(where: str) -> Callable[[str, int], bool]:
    if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return lambda text, position: position == 0
    if where == "AT_END_STRING":
        return lambda text, position: position == len(text)
    if where == "AT_END":  # also before a newline at the end
        return lambda text, position: text[position:] in ("", "\n")
    raise PatternError("boundaries of words are not supported")


_CATEGORIES = {
    name: re.compile(pattern).match
    for name, pattern in (
        *(("CATEGORY_DIGIT", r"\d"), ("CATEGORY_NOT_DIGIT", r"\D")),
        *(("CATEGORY_SPACE", r"\s"), ("CATEGORY_NOT_SPACE", r"\S")),
        *(("CATEGORY_WORD", r"\w"), ("CATEGORY_NOT_WORD", r"\W")),
    )
}


def _character(operation: str, argument: Any) -> Callable[[str], bool]:
    """Return what accepts a character."""
    if operation == "LITERAL":
        return lambda character: ord(character) == argument
    if operation == "NOT_LITERAL":
        return lambda character: ord(character) != argument
    if operation == "ANY":
        return lambda character: character != "\n"
    if operation == "RANGE":
        low, high = argument
        return lambda character: low <= ord(character) <= high
    if operation == "CATEGORY" and str(argument) in _CATEGORIES:
        match = _CATEGORIES[str(argument)]
        return lambda character: match(character) is not None
    if operation == "IN":
        items = [(str(name), value) for name, value in argument]
        negated = items[0][0] == "NEGATE"
        tests = [_character(name, value) for name, value in items if name != "NEGATE"]
        return lambda character: any(accepts(character) for accepts in tests) != negated
    names = {
        "ASSERT": "lookaround is",
        "ASSERT_NOT": "lookaround is",
        "GROUPREF": "references to groups are",
        "GROUPREF_EXISTS": "references to groups are",
    }
    raise PatternError(f"{names.get(operation, operation.lower().replace('_', ' ') + ' is')} not supported")
