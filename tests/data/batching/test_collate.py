import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.counting_tokenizer import PAIRS, SINGLE, split_of
from tests.support.every_kind import task_of_kind, tokens_of
from tests.support.more import examples
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data import collate, tokenize
from weft.errors import WeftError

MIX = ("classify", "marked", "span", "choose")


@pytest.fixture(scope="module")
def splits(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return {texts[0]: tokenize(split_of(texts), tokenizer, 24, folder) for texts in (SINGLE, PAIRS)}


def expected(tokenizer, texts, **padding):
    columns = list(zip(*((t,) if isinstance(t, str) else t for t in texts), strict=True))
    return tokenizer(
        *map(list, columns), truncation="longest_first", max_length=24, return_tensors="pt", **padding
    )


@settings(max_examples=examples(30))
@given(st.data(), st.sampled_from([SINGLE, PAIRS]))
def test_the_tokenizer_pads_the_same(tokenizer, splits, data, texts):
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=9))
    tokens = splits[texts[0]]
    batch = collate([(tokens, i) for i in chosen], tokenizer.pad_token_id)
    same = expected(tokenizer, [texts[i] for i in chosen], padding="longest")
    if texts is SINGLE:
        assert not same.pop("token_type_ids").any()
    assert set(batch) == set(same)
    for name, tensor in batch.items():
        assert tensor.dtype == torch.int64
        assert torch.equal(tensor, same[name])


def test_to_a_given_length(tokenizer, splits):
    tokens = splits[PAIRS[0]]
    batch = collate([(tokens, i) for i in range(len(tokens))], tokenizer.pad_token_id, length=24)
    same = expected(tokenizer, PAIRS, padding="max_length")
    assert all(torch.equal(batch[name], same[name]) for name in same)
    assert collate([(tokens, 0)], 0, length=100)["input_ids"].shape == (1, 100)


def test_rows_of_several_tasks(tokenizer, splits):
    single, pairs = splits[SINGLE[0]], splits[PAIRS[0]]
    batch = collate([(single, 0), (pairs, 1), (single, 3)], 77, length=24)
    assert batch["input_ids"][2].tolist() == [*single.ids(3).tolist(), *[77] * (24 - len(single.ids(3)))]
    assert batch["attention_mask"].sum(1).tolist() == [single.lengths[0], pairs.lengths[1], single.lengths[3]]
    assert batch["token_type_ids"][0].sum() == batch["token_type_ids"][2].sum() == 0
    assert batch["token_type_ids"][1].tolist() == [
        *pairs.types(1).tolist(),
        *[0] * (24 - pairs.lengths[1]),
    ]
    assert "token_type_ids" not in collate([(single, 0), (single, 1)], 0)


def test_a_batch_is_its_own(splits):
    tokens = splits[SINGLE[0]]
    batch = collate([(tokens, 0)], 0)
    batch["input_ids"].zero_()
    assert tokens.ids(0).any()


def test_what_cannot_be(splits):
    tokens = splits[SINGLE[0]]
    with pytest.raises(WeftError, match="row 1 of the batch has 24 tokens and length is 10"):
        collate([(tokens, 0), (tokens, 2)], 0, length=10)
    with pytest.raises(WeftError, match="at least one example"):
        collate([], 0)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=9), st.integers(0, 3))
def test_rows_of_any_mix_are_those_of_each(chosen, further):
    """Of one row and of several, with types, marks and neither: row by row what `Tokens` says."""
    every = [tokens_of(task_of_kind(name, 3), tiny_tokenizer("words")) for name in MIX]
    items = [(every[t], i) for t, i in chosen]
    rows = [(tokens, r, e) for e, (tokens, i) in enumerate(items) for r in tokens.rows_of(i)]
    batch = collate(items, 0, rows=len(rows) + further + 1, keys=("token_type_ids", "marks", "example"))
    longest = max(len(tokens.ids(r)) for tokens, r, _ in rows)
    for number, (tokens, r, e) in enumerate(rows):
        padding = [0] * (longest - len(tokens.ids(r)))
        assert batch["example"][number] == e
        assert batch["input_ids"][number].tolist() == [*tokens.ids(r).tolist(), *padding]
        for name, found in (("token_type_ids", tokens.types(r)), ("marks", tokens.marks(r))):
            values = [0] * longest if found is None else [*found.tolist(), *padding]
            assert batch[name][number].tolist() == values
    assert batch["attention_mask"].sum(1).tolist() == [
        *(len(tokens.ids(r)) for tokens, r, _ in rows),
        *[1] * (further + 1),
    ]
    assert batch["example"][len(rows) :].tolist() == [len(items)] * (further + 1)


def test_what_the_examples_need_cannot_be_left_out(splits):
    with pytest.raises(WeftError, match="the examples need token_type_ids"):
        collate([(splits[PAIRS[0]], 0)], 0, keys=())
