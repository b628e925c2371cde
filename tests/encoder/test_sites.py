import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import tiny
from weft.encoder.anatomy import sites_of
from weft.encoder.sites import parse_layers
from weft.errors import WeftError


@given(st.integers(2, 30))
def test_halves_make_a_whole(count):
    top, bottom = parse_layers("top half", count), parse_layers("bottom half", count)
    assert not set(top) & set(bottom)
    assert len(top) == len(bottom) == count // 2
    assert parse_layers("all", count) == list(range(count))
    assert parse_layers("not top half", count) == list(range(count - count // 2))


@pytest.mark.parametrize("half", ["top half", "bottom half"])
def test_one_block_has_no_half(half):
    """A method in no layer would change nothing, without a word."""
    with pytest.raises(WeftError, match="none of the encoder's 1; use 'all'"):
        parse_layers(half, 1)
    assert parse_layers(f"not {half}", 1) == [0]


@given(st.sets(st.integers(0, 23), min_size=1))
def test_a_list_and_its_text_mean_the_same(numbers):
    text = ",".join(map(str, numbers))
    assert parse_layers(text, 24) == parse_layers(list(numbers), 24) == sorted(numbers)


def test_ranges():
    assert parse_layers("6-8", 12) == [6, 7, 8]
    assert parse_layers("0, 2,4-5", 12) == [0, 2, 4, 5]


@given(st.integers(1, 30), st.integers(0, 100))
def test_shares_and_what_is_left_of_them(count, percent):
    """A share is rounded down to whole blocks; `not` means all others, and a share of nothing leaves all."""
    blocks = count * percent // 100
    if blocks:
        assert parse_layers(f"top {percent}%", count) == list(range(count - blocks, count))
        assert parse_layers(f"bottom  {percent} %", count) == list(range(blocks))
    if blocks < count:
        assert parse_layers(f"not bottom {percent}%", count) == list(range(blocks, count))
    if count > 1:
        assert parse_layers("not 0", count) == list(range(1, count))
        assert parse_layers("not not 0", count) == [0]


@pytest.mark.parametrize("wrong", ["not all", "not 0-11", "top 0%", "bottom 8%", "top 101%"])
def test_shares_that_leave_nothing(wrong):
    with pytest.raises(WeftError, match=r"leaves no layer|means .* of the encoder's 12"):
        parse_layers(wrong, 12)


def test_an_encoder_without_blocks_has_sites():
    from transformers import BertConfig, BertModel

    bert = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=0, num_attention_heads=2))
    assert sites_of(bert).num_layers == 0


@pytest.mark.parametrize("wrong", ["top", "5-3", "", "1,,2", "a-b", "6-"])
def test_text_that_cannot_be_read(wrong):
    with pytest.raises(WeftError, match="cannot be read"):
        parse_layers(wrong, 12)


@pytest.mark.parametrize("wrong", ["12", "0-12", [-1], []])
def test_layers_that_are_not_there(wrong):
    with pytest.raises(WeftError, match="outside the encoder, whose layers are 0-11"):
        parse_layers(wrong, 12)


def test_a_misspelt_site_is_guessed():
    with pytest.raises(WeftError, match="did you mean 'query'"):
        sites_of(tiny("bert")).select(["qury"])


def test_sites_come_block_by_block():
    found = sites_of(tiny("bert")).select(["query", "value", "top"])
    assert [s.key for s in found] == ["0/query", "0/value", "1/query", "1/value", "top"]
