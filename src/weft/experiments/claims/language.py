"""The language of claims: a comparison of two expressions.

    claim      = expression (">" | ">=" | "<" | "<=") expression ["margin" NUMBER]
    expression = term {("+" | "-") term}
    term       = factor {("*" | "/") factor}
    factor     = NUMBER | "-" factor | "(" expression ")" | FUNCTION "(" argument {"," argument} ")"
    argument   = NAME | QUOTED | NUMBER | SERIES | SERIES "(" variant ")"

A name is a word (`lora`, `mt_uncertainty`); any other is quoted: `average('uniform, full')`. Nothing is
executed: the parser knows the functions of `functions` and nothing else.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from weft.errors import WeftError, did_you_mean
from weft.experiments.claims.functions import FUNCTIONS, NUMBER, SERIES, SERIES_ABOUT, Function

LONGEST = 2000
"""The most characters of a test."""
DEEPEST = 50
"""The most brackets and signs around each other."""
COMPARISONS = (">", ">=", "<", "<=")

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<name>[^\W\d]\w*)
      | (?P<quoted>'[^']*'|"[^"]*")
      | (?P<sign>>=|<=|[-+*/(),<>])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Series:
    """One value per task; `variant` is None if it is left out."""

    name: str
    variant: str | None = None


@dataclass(frozen=True)
class Call:
    """A function with its arguments: names, numbers or series."""

    function: str
    arguments: tuple[str | float | Series, ...]


@dataclass(frozen=True)
class Binary:
    """Two expressions with +, -, * or / between them."""

    operator: str
    left: Node
    right: Node


Node = Number | Call | Binary


@dataclass(frozen=True)
class ParsedClaim:
    """A test.

    Attributes:
        left: the expression before the comparison.
        comparison: one of `COMPARISONS`.
        right: the expression after it.
        margin: by how much the left side may fail, at least 0.
    """

    left: Node
    comparison: str
    right: Node
    margin: float = 0.0

    @property
    def strict(self) -> bool:
        """Whether equal sides do not satisfy it."""
        return self.comparison in (">", "<")

    @property
    def difference(self) -> Binary:
        """The expression that must be above −margin: left − right, or right − left for < and <=."""
        if self.comparison.startswith(">"):
            return Binary("-", self.left, self.right)
        return Binary("-", self.right, self.left)

    @property
    def calls(self) -> list[Call]:
        """Every call of a function, in order."""
        return [*_calls(self.left), *_calls(self.right)]


def parse_claim(test: str) -> ParsedClaim:
    """Parse a test; variants and tasks are not looked up.

    Raises:
        WeftError: with the test, the position, what was found and what was expected.
    """
    return _Parser(test).claim()


def _calls(node: Node) -> list[Call]:
    calls: list[Call] = []
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Call):
            calls.append(here)
        elif isinstance(here, Binary):
            waiting += [here.right, here.left]
    return calls


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def located(test: str, at: int, problem: str) -> WeftError:
    """The error for a place in a test, with the test and a mark below the place."""
    line = "".join(letter if letter.isprintable() else " " for letter in test[:LONGEST])
    return WeftError(f"claim, character {at + 1}: {problem}\n  {line}\n  {' ' * at}^")


class _Parser:
    """A recursive descent over the tokens of a test."""

    def __init__(self, test: str) -> None:
        self.test = test
        if len(test) > LONGEST:
            raise WeftError(f"a claim has {len(test):,} characters; expected at most {LONGEST:,}")
        self.tokens = self._tokens()
        self.here = 0
        self.depth = 0

    def claim(self) -> ParsedClaim:
        left = self.expression()
        comparison = self.take()
        if comparison.text not in COMPARISONS:
            self.wrong(comparison, f"expected a comparison, one of {' '.join(COMPARISONS)}")
        right = self.expression()
        margin = 0.0
        token = self.take()
        if token.kind == "name" and token.text == "margin":
            number = self.take()
            if number.kind != "number":
                self.wrong(number, "expected the margin, a number such as 0.5")
            margin = self.value(number)
            token = self.take()
        if token.kind != "end":
            hint = "one comparison" if token.text in COMPARISONS else "margin NUMBER"
            self.wrong(token, f"expected the end of the claim, or {hint}")
        claim = ParsedClaim(left, comparison.text, right, margin)
        if not claim.calls:
            raise located(
                self.test, 0, f"it compares numbers only; expected a function, one of {', '.join(FUNCTIONS)}"
            )
        return claim

    def expression(self) -> Node:
        node = self.term()
        while self.next.kind == "sign" and self.next.text in "+-":
            node = Binary(self.take().text, node, self.term())
        return node

    def term(self) -> Node:
        node = self.factor()
        while self.next.kind == "sign" and self.next.text in "*/":
            node = Binary(self.take().text, node, self.factor())
        return node

    def factor(self) -> Node:
        token = self.take()
        if token.kind == "number":
            return Number(self.value(token))
        if token.kind == "sign" and token.text in "-(":
            self.depth += 1
            if self.depth > DEEPEST:
                self.wrong(token, f"more than {DEEPEST} brackets and signs around each other; expected fewer")
            if token.text == "-":
                node: Node = Binary("-", Number(0.0), self.factor())
            else:
                node = self.expression()
                self.expect(")")
            self.depth -= 1
            return node
        if token.kind == "name":
            return self.call(token)
        return self.wrong(token, "expected a function or a number")

    def call(self, token: _Token) -> Call:
        function = FUNCTIONS.get(token.text)
        if function is None:
            self.wrong(token, f"no such function; {did_you_mean(token.text, FUNCTIONS)}")
        self.expect("(", f"expected {function.signature}")
        arguments: list[str | float | Series] = []
        while True:
            if len(arguments) == len(function.arguments):
                self.wrong(self.next, f"too many arguments; expected {function.signature}")
            arguments.append(self.argument(function, function.arguments[len(arguments)].removesuffix("?")))
            token = self.take()
            if token.kind == "sign" and token.text == ")":
                break
            if token.kind != "sign" or token.text != ",":
                hint = "; a name that is not one word is quoted: 'CA-MTL, annealed'"
                self.wrong(token, f"expected a comma or a closing bracket{hint}")
        if len(arguments) < function.fewest:
            self.wrong(token, f"too few arguments; expected {function.signature}")
        return Call(function.name, tuple(arguments))

    def argument(self, function: Function, kind: str) -> str | float | Series:
        token = self.take()
        if kind == NUMBER:
            if token.kind != "number":
                self.wrong(token, f"expected a number; the form is {function.signature}")
            return self.value(token)
        if token.kind not in ("name", "quoted"):
            self.wrong(token, f"expected the name of a {kind}; the form is {function.signature}")
        name = token.text if token.kind == "name" else token.text[1:-1]
        if kind != SERIES:
            return name
        if name not in SERIES_ABOUT:
            self.wrong(token, f"no such series; {did_you_mean(name, SERIES_ABOUT)}")
        if self.next.kind != "sign" or self.next.text != "(":
            return Series(name)
        self.take()
        variant = self.take()
        if variant.kind not in ("name", "quoted"):
            self.wrong(variant, f"expected the name of a variant, as in {name}(VARIANT)")
        self.expect(")")
        return Series(name, variant.text if variant.kind == "name" else variant.text[1:-1])

    @property
    def next(self) -> _Token:
        return self.tokens[min(self.here, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.next
        self.here += 1
        return token

    def expect(self, sign: str, expected: str | None = None) -> None:
        token = self.take()
        if token.kind != "sign" or token.text != sign:
            self.wrong(token, expected or f"expected {sign}")

    def value(self, token: _Token) -> float:
        value = float(token.text)
        if not math.isfinite(value):
            self.wrong(token, "too large; expected a number")
        return value

    def wrong(self, token: _Token, expected: str) -> NoReturn:
        found = "the end" if token.kind == "end" else repr(token.text)
        raise located(self.test, token.at, f"found {found}: {expected}")

    def _tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        at, end = 0, len(self.test.rstrip())
        while at < end:
            match = _TOKEN.match(self.test, at)
            if match is None or match.lastgroup is None:
                start = at + len(self.test[at:]) - len(self.test[at:].lstrip())
                letter = self.test[start]
                hint = (
                    "a quote without its end"
                    if letter in "'\""
                    else "expected a function, a name or a number"
                )
                raise located(self.test, start, f"found {letter!r}: {hint}")
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "", end)]
