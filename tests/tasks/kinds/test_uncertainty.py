"""How unsure a model is of an example, by kind: against the definition, example by example."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.golden import read_golden
from tests.support.kind_batches import LENGTH, Company, company, random_logits
from tests.support.more import examples
from weft.core.layout import Layout
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.kind import Kind
from weft.tasks.kinds.rank import RankPairwise
from weft.tasks.kinds.tag import NOT_A_WORD

MEASURES = st.sampled_from(["entropy", "margin", "raw_entropy"])
MOST = math.log(LENGTH) + 1e-5
"""The most that an entropy is that is not normalized: no example here has more than LENGTH answers."""
SCALES = st.sampled_from([0.0, 1.0, 30.0, 300.0])
EASY = settings(max_examples=examples(40))


def unsure(logits: Any, measure: str) -> float:
    """Of one answer among C logits, by the definition."""
    shares = torch.as_tensor(logits).double().softmax(0)
    if measure == "margin":
        best = [*shares.sort(descending=True).values.tolist(), 0.0]
        return 1 - (best[0] - best[1])
    entropy = -sum(p * math.log(p) for p in shares.tolist() if p > 0)
    return entropy if measure == "raw_entropy" else entropy / (math.log(len(shares)) + 1e-5)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def assert_found(kind: Kind, logits: Any, batch: Company, measure: str, expected: Any, labels: Any = None):
    """The kind's numbers are `expected(e)` for its own examples, from 0 to 1 if they are normalized."""
    found = kind.uncertainty(logits.detach(), batch.layout, measure, labels)
    assert found is not None
    assert found.shape == (len(batch.mine),)
    for e, own in enumerate(batch.mine):
        if own:
            assert 0 <= found[e].item() <= (MOST if measure == "raw_entropy" else 1)
            assert found[e].item() == pytest.approx(expected(e), abs=2e-5)


@pytest.mark.parametrize("name", ["classify", "marked"])
@EASY
@given(company(), st.integers(2, 5), MEASURES, SCALES)
def test_one_label_of_some(name, batch, size, measure, scale):
    logits = random_logits(len(batch.mine), size, scale=scale)
    assert_found(KINDS[name](), logits, batch, measure, lambda e: unsure(logits[e], measure))


@EASY
@given(company(), st.integers(2, 5), MEASURES, SCALES)
def test_labels_by_themselves(batch, size, measure, scale):
    logits = random_logits(len(batch.mine), size, scale=scale)
    assert_found(
        KINDS["multilabel"](),
        logits,
        batch,
        measure,
        lambda e: mean([unsure([x, 0.0], measure) for x in logits[e].tolist()]),
    )


@pytest.mark.parametrize("name", ["choose", "rank"])
@EASY
@given(company(1, 6), MEASURES, SCALES)
def test_choices_of_an_example(name, batch, measure, scale):
    """Its own number of them is C; of one choice there is nothing to be unsure of."""
    logits = random_logits(len(batch.lengths), 1, scale=scale)
    assert_found(KINDS[name](), logits, batch, measure, lambda e: unsure(logits[batch.rows[e], 0], measure))


@EASY
@given(company(1, 5), MEASURES, SCALES)
def test_pairs_of_candidates(batch, measure, scale):
    logits = random_logits(len(batch.lengths), 1, scale=scale)

    def expected(e: int) -> float:
        own = logits[batch.rows[e], 0].tolist()
        return mean([unsure([x - y, 0.0], measure) for i, x in enumerate(own) for y in own[:i]])

    assert_found(RankPairwise(), logits, batch, measure, expected)


@EASY
@given(company(), MEASURES, SCALES)
def test_a_start_and_an_end_among_a_rows_tokens(batch, measure, scale):
    logits = random_logits(len(batch.lengths), LENGTH, 2, scale=scale)

    def expected(e: int) -> float:
        ends = [logits[r, : batch.lengths[r], k] for r in batch.rows[e] for k in (0, 1)]
        return mean([unsure(own, measure) for own in ends])

    assert_found(KINDS["span"](), logits, batch, measure, expected)


@EASY
@given(company(), MEASURES, SCALES, st.booleans(), st.data())
def test_a_tag_a_word(batch, measure, scale, known, data):
    """Where words begin is where labels are; what they say is no matter. Without labels, every token."""
    logits = random_logits(len(batch.lengths), LENGTH, 4, scale=scale)
    words = [[t for t in range(n) if not known or data.draw(st.booleans())] for n in batch.lengths]
    labels = None
    if known:
        width = data.draw(st.integers(max([1, *(t + 1 for own in words for t in own)]), LENGTH + 2))
        labels = torch.full((len(words), width), NOT_A_WORD)
        for row, own in enumerate(words):
            labels[row, own] = data.draw(st.integers(0, 9))

    def expected(e: int) -> float:
        return mean([unsure(logits[r, t], measure) for r in batch.rows[e] for t in words[r]])

    assert_found(KINDS["tag"](), logits, batch, measure, expected, labels)


@pytest.mark.parametrize("name", list(KINDS))
def test_a_kind_has_a_measure_or_says_that_it_has_none(name):
    kind = KINDS[name]()
    shape = {"example": (3, 2), "row": (3, 1), "token": (3, LENGTH, 2)}[kind.answers_by]
    for dtype in (torch.float32, torch.bfloat16):
        found = kind.uncertainty(torch.zeros(shape, dtype=dtype), Layout(None, 3), "entropy")
        assert (found is not None) == kind.has_uncertainty == (name not in ("regress", "similarity"))
        if found is not None:  # of rows that are their own, `choose` and `rank` have one choice each
            assert found.tolist() == pytest.approx([0.0 if kind.answers_by == "row" else 1.0] * 3, abs=2e-5)


def test_an_entropy_that_is_not_normalized_grows_with_the_number_of_labels():
    """So that of two tasks with equally unsure models, the one with more labels is chosen."""
    kind = KINDS["classify"]()
    for labels in (2, 3, 5):
        found = kind.uncertainty(torch.zeros(1, labels), Layout(None, 1), "raw_entropy")
        assert found.item() == pytest.approx(math.log(labels))


@pytest.mark.parametrize("task", ["cola", "mnli"])
def test_entropy_is_that_of_the_authors_code(task):
    """H / (ln C + 1e-5). Of their one output (sts-b) it is 0, which here is no measure at all."""
    _, part = read_golden("ca_mtl", "entropy")
    logits = part("in.logits.")[task]
    found = KINDS["classify"]().uncertainty(logits, Layout(None, len(logits)), "entropy")
    torch.testing.assert_close(found, part("out.norm_entropy.")[task], atol=1e-5, rtol=0)
    assert part("out.norm_entropy.")["sts-b"].abs().max() == 0
