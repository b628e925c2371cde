"""Logits of many batches: each example gets its own, and one that no batch had gets none."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.every_kind import task_of_kind, tokens_of
from tests.support.tiny import build, scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.inference.examples import Examples
from weft.inference.logits import AllLogits, BatchLogits, HostLogits
from weft.inference.runner import all_logits, answers
from weft.utils.processes import Processes

NAMES = ("classify", "regress", "choose", "tag")


def test_each_process_has_the_logits_of_its_own_batches_alone():
    """Those of the others must be missing: what is there would be taken for theirs."""
    model = scramble(build("bert", "lora", [task_of_kind(name, 11) for name in NAMES])).eval()
    tokens = [tokens_of(task, tiny_tokenizer("words")) for task in model.tasks]
    listed = [(t, tokens[t], i) for i in range(11) for t in range(len(NAMES))]
    expected = answers(model, listed, batch_size=4)
    parts = []
    for rank in range(2):
        found = all_logits(model, Examples.of(listed), 4, Processes(rank, 2)).finish()
        parts.append([found.of(number) for number in range(len(found))])
    assert all((own is None) != (other is None) for own, other in zip(*parts, strict=True))
    both = [other if own is None else own for own, other in zip(*parts, strict=True)]
    assert len(both) > len(listed)  # five choices are more than a batch of four rows: two pieces
    for joined, right in zip(found.joined(both), expected, strict=True):
        np.testing.assert_allclose(joined, right, rtol=1e-4, atol=1e-5)


def test_a_slice_of_one_task_is_one_array_and_any_slice_has_the_same_logits():
    model = scramble(build("bert", "lora", [task_of_kind(name, 11) for name in NAMES])).eval()
    sets = [(t, tokens_of(task, tiny_tokenizer("words")), range(11)) for t, task in enumerate(model.tasks)]
    examples = Examples.of_sets(sets)
    listed = Examples.of([(t, tokens, i) for t, tokens, which in sets for i in which])
    for name in ("task", "split", "index", "lengths", "counts"):
        np.testing.assert_array_equal(getattr(examples, name), getattr(listed, name))
    found = answers(model, examples, batch_size=4)
    each = list(found)
    assert len(found) == len(each) == len(listed)
    assert found[:11].shape == (11, model.tasks[0].size)  # an object per example would take more memory
    for part in (slice(0, 11), slice(3, 30), slice(22, 33), slice(33, 44), slice(0, 0), slice(5, 40, 7)):
        assert len(found[part]) == len(each[part])
        for one, other in zip(found[part], each[part], strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found[-1], each[-1])
    assert len(Examples.of_sets([])) == 0


def test_rows_do_not_keep_their_batch():
    """A batch has the logits of all head shapes: of many batches that is much memory."""
    logits = {"rows": torch.zeros(4, 1), "tokens": torch.zeros(4, 5000)}
    found = AllLogits(["rows"], np.zeros(2, np.int64), {"rows": "row"})
    found.add(BatchLogits(HostLogits.of(logits), [0, 1], [0, 0, 1, 1], [3, 3, 3, 3]))
    own = found.finish().of(0)
    assert own is not None
    assert own.shape == (2,)
    assert own.base is None
