"""SQuAD's rules, case by case, as its v1.1 script counts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.metrics import score
from weft.metrics.spans import plain

CASES = {  # right texts, answer, exact match, F1
    "the same": (["Denver Broncos"], "Denver Broncos", 1, 1),
    "lower case": (["Denver Broncos"], "denver BRONCOS", 1, 1),
    "an article": (["the Denver Broncos"], "Denver Broncos", 1, 1),
    "articles anywhere": (["a cat on an old mat"], "The cat on old mat", 1, 1),
    "no article inside a word": (["theatre"], "atre", 0, 0),
    "punctuation": (['"Gold" (50th)'], "gold 50th", 1, 1),
    "a hyphen joins": (["co-op"], "coop", 1, 1),
    "a hyphen is no space": (["co-op"], "co op", 0, 0),
    "an article made by punctuation": (["a.n apple"], "apple", 1, 1),
    "a dash that is not ASCII stays": (["1990–1995"], "19901995", 0, 0),
    "white space": (["Santa  Clara\n"], " santa\tclara", 1, 1),
    "one word of two": (["Denver Broncos"], "Broncos", 0, 2 / 3),
    "one word too many": (["Broncos"], "the Denver Broncos", 0, 2 / 3),
    "order does not count for F1": (["red blue"], "blue red", 0, 1),
    "a word twice counts twice": (["no no yes"], "no no no", 0, 2 / 3),
    "the best right text": (["in Santa Clara, California", "Santa Clara"], "Santa Clara", 1, 1),
    "nothing common": (["Denver"], "Carolina", 0, 0),
    "an empty answer": (["Denver"], "", 0, 0),
    "an answer of an article": (["Denver"], "the", 0, 0),
    "both empty by the rules": (["the"], "a", 1, 0),  # v1.1: no common word, so F1 is 0
    "no right text": ([], "Denver", 0, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    rights, answer, exact, f1 = CASES[case]
    metrics = score(["exact_match", "token_f1"], [rights], [answer])
    assert metrics == {"exact_match": exact, "token_f1": pytest.approx(f1)}


def test_the_mean_over_all_answers():
    metrics = score(["exact_match", "token_f1"], [["a cat"], ["dog", "old dog"]], ["cat", "an old, red dog"])
    assert metrics == {"exact_match": 0.5, "token_f1": pytest.approx((1 + 4 / 5) / 2)}
    assert score(["exact_match", "token_f1"], [], []) == {"exact_match": 0.0, "token_f1": 0.0}


texts = st.text(alphabet="aAnthe Tbc.,-'é\n", max_size=12)


@given(st.lists(texts, min_size=1, max_size=3), texts)
def test_properties(rights, answer):
    metrics = score(["exact_match", "token_f1"], [rights], [answer])
    assert 0 <= metrics["token_f1"] <= 1
    if metrics["exact_match"] and plain(answer):
        assert metrics["token_f1"] == 1
    assert plain(plain(answer)) == plain(answer)
    more = score(["exact_match", "token_f1"], [[*rights, answer]], [answer])
    assert more["exact_match"] == 1
    assert more["token_f1"] >= metrics["token_f1"]
