"""The language of claims: what it accepts, and what its errors say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.experiments.claims import ParsedClaim, check_claim, parse_claim
from weft.experiments.claims.functions import FUNCTIONS, SERIES_ABOUT
from weft.experiments.claims.language import DEEPEST, LONGEST, Binary, Call, Number, Series

VARIANTS = ["low_rank", "pals", "uniform, full", "CA-MTL", "mt_uncertainty", "uniform"]


def test_the_examples_of_the_documentation():
    assert parse_claim("average(low_rank) >= average(pals) margin 0.5") == ParsedClaim(
        Call("average", ("low_rank",)), ">=", Call("average", ("pals",)), 0.5
    )
    assert parse_claim("gain(morris, lora_bitfit_mtl) >= 1.0") == ParsedClaim(
        Call("gain", ("morris", "lora_bitfit_mtl")), ">=", Number(1.0)
    )
    assert parse_claim("steps_to(mt_uncertainty, 0.8) < steps_to(uniform, 0.8)") == ParsedClaim(
        Call("steps_to", ("mt_uncertainty", 0.8)), "<", Call("steps_to", ("uniform", 0.8))
    )
    assert parse_claim("rank_correlation(difficulty, first_peak) > 0") == ParsedClaim(
        Call("rank_correlation", (Series("difficulty"), Series("first_peak"))), ">", Number(0.0)
    )


def test_names_with_other_letters_are_quoted():
    parsed = parse_claim("""average('uniform, full') > score("CA-MTL", 'mnli mm')""")
    assert parsed.left == Call("average", ("uniform, full",))
    assert parsed.right == Call("score", ("CA-MTL", "mnli mm"))
    assert parse_claim("task_count(score('CA-MTL'), score(pals)) > 1").left == Call(
        "task_count", (Series("score", "CA-MTL"), Series("score", "pals"))
    )


def test_products_bind_more_strongly_than_sums_and_brackets_most():
    a, b, c = (Call("average", (name,)) for name in "abc")
    assert parse_claim("average(a) + average(b) * average(c) > 0").left == Binary("+", a, Binary("*", b, c))
    assert parse_claim("(average(a) - average(b)) / average(c) > 0").left == Binary("/", Binary("-", a, b), c)
    assert parse_claim("average(a) - average(b) - average(c) > 0").left == Binary("-", Binary("-", a, b), c)
    assert parse_claim("-average(a) > -1").left == Binary("-", Number(0.0), a)


@pytest.mark.parametrize(
    ("test", "place", "expected"),
    [
        ("averge(pals) > 1", 1, "no such function; did you mean 'average'? known: average, best_task_count"),
        ("average(pals > 1", 14, "expected a comma or a closing bracket"),
        ("average() > 1", 9, "expected the name of a variant; the form is average(variant)"),
        ("average(pals, cola) > 1", 15, "too many arguments; expected average(variant)"),
        ("score(pals) > 1", 11, "too few arguments; expected score(variant, task)"),
        ("steps_to(pals, cola) > 1", 16, "expected a number; the form is steps_to(variant, number[, task])"),
        ("average(pals)", 14, "found the end: expected a comparison, one of > >= < <="),
        ("average(pals) == 1", 15, "found '='"),
        ("average(pals) > 1 > 0", 19, "expected the end of the claim, or one comparison"),
        ("average(pals) > 1 margn 2", 19, "expected the end of the claim, or margin NUMBER"),
        ("average(pals) > 1 margin x", 26, "expected the margin, a number such as 0.5"),
        ("average('pals) > 1", 9, "a quote without its end"),
        ("average(CA-MTL) > 1", 11, "a name that is not one word is quoted: 'CA-MTL, annealed'"),
        ("1 > 0", 1, "it compares numbers only; expected a function"),
        ("rank_correlation(dificulty, first_peak) > 0", 18, "no such series; did you mean 'difficulty'?"),
        ("average.__class__(pals) > 0", 8, "found '.'"),
        ("__import__('os') > 0", 1, "no such function"),
        ("", 1, "found the end: expected a function or a number"),
        ("average(pals) > 1e999", 17, "too large"),
    ],
)
def test_a_mistake_is_shown_with_its_place(test, place, expected):
    with pytest.raises(WeftError) as caught:
        parse_claim(test)
    message = str(caught.value)
    first, *rest = message.splitlines()
    assert expected in message
    assert f"character {place}:" in first
    assert rest == [f"  {test}", " " * (place + 1) + "^"]


def test_long_and_deep_claims_are_refused():
    with pytest.raises(WeftError, match="expected at most 2,000"):
        parse_claim("average(pals) > " + "1 + " * LONGEST + "1")
    with pytest.raises(WeftError, match=f"more than {DEEPEST} brackets"):
        parse_claim("(" * (DEEPEST + 1) + "average(pals)" + ")" * (DEEPEST + 1) + " > 0")
    parse_claim("(" * DEEPEST + "average(pals)" + ")" * DEEPEST + " > 0")


WORDS = [
    *FUNCTIONS,
    *SERIES_ABOUT,
    *("pals", "'uniform, full'", "margin", "0.5", "1e3", "(", ")", ",", "+", "-", "*", "/"),
    *(">", ">=", "<", "<=", " ", "'", '"', ".", "=", "é", "\n", "\x00"),
]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=25).map("".join)))
def test_any_text_is_a_claim_or_a_mistake(text):
    try:
        parsed = check_claim(text, VARIANTS)
    except WeftError:
        return  # anything else fails the test
    assert parsed.calls
    assert parsed.margin >= 0


NODES = st.recursive(
    st.one_of(
        st.floats(0, 1e6).map(Number),
        st.builds(Call, st.just("average"), st.tuples(st.sampled_from(VARIANTS))),
        st.builds(Call, st.just("score"), st.tuples(st.sampled_from(VARIANTS), st.just("a b"))),
    ),
    lambda inner: st.builds(Binary, st.sampled_from("+-*/"), inner, inner),
    max_leaves=8,
)


def written(node) -> str:
    if isinstance(node, Number):
        return repr(node.value)
    if isinstance(node, Binary):
        return f"({written(node.left)} {node.operator} {written(node.right)})"
    names = ", ".join(f"'{name}'" for name in node.arguments)
    return f"{node.function}({names})"


@given(NODES, NODES, st.sampled_from([">", ">=", "<", "<="]), st.floats(0, 100))
def test_a_written_claim_is_parsed_to_itself(left, right, comparison, margin):
    claim = ParsedClaim(left, comparison, right, margin)
    text = f"{written(left)} {comparison} {written(right)} margin {margin!r}"
    if claim.calls:
        assert parse_claim(text) == claim
    else:
        with pytest.raises(WeftError, match="numbers only"):
            parse_claim(text)


def test_names_are_checked_before_anything_is_trained():
    check_claim("average('CA-MTL') > average(pals)", VARIANTS)
    with pytest.raises(WeftError, match=r"no variant 'pal'; did you mean 'pals'\? known: .*uniform, full"):
        check_claim("average(pal) > 1", VARIANTS)
    with pytest.raises(WeftError, match="no task 'colla'; did you mean 'cola'"):
        check_claim("score(pals, colla) > 1", VARIANTS, tasks=["cola", "rte"])
    with pytest.raises(WeftError, match="no measure 'storag'"):
        check_claim("measure(pals, storag) > 1", VARIANTS)
    with pytest.raises(WeftError, match=r"'bundled' is not measured; expected measures: \[storage\]"):
        check_claim("measure(pals, bundled) > 1", VARIANTS, measures=["similarity"])
    check_claim("measure(pals, query_pairs, cola, rte) > measure(pals, query_pairs)", VARIANTS)
    with pytest.raises(WeftError, match="no task 'colla'; did you mean 'cola'"):
        check_claim("measure(pals, composition, colla) > 1", VARIANTS, tasks=["cola", "rte"])
    for call, expected in (
        (
            "query_pairs, cola",
            r"query_pairs with 1 task; expected measure\(.*, query_pairs, TASK, TASK\), or no",
        ),
        (
            "composition, cola, rte",
            r"composition with 2 tasks; expected measure\(.*, composition, TASK\), or no",
        ),
        ("speed, cola", r"speed with 1 task; expected measure\(VARIANT, speed\)\n"),
    ):
        with pytest.raises(WeftError, match=expected):
            check_claim(f"measure(pals, {call}) > 1", VARIANTS)
    with pytest.raises(WeftError, match=r"first_peak of which variant\? expected first_peak\(VARIANT\)"):
        check_claim("rank_correlation(difficulty, first_peak) > 0", VARIANTS)
    check_claim("rank_correlation(difficulty, first_peak) > 0", ["mt_uncertainty"])
    check_claim("rank_correlation(difficulty, first_peak(mt_uncertainty)) > 0", VARIANTS)
