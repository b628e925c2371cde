"""Long texts as several rows, with every make of tokenizer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from tests.support.tiny_tokenizers import TOKENIZERS, tiny_tokenizer
from tests.support.windows import WORDS, span_rows, span_task, tag_task
from weft.data import load_split
from weft.data.tokens.encode import stride_of
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError

every_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)
EXOTIC = (*WORDS, "\u200b", "e\u0301", "[SEP]", "\u00ad", "ﬁne", "👩‍👩‍👧")
spaces = st.sampled_from([" ", " ", " ", "  ", "\n", " \t "])


@st.composite
def texts(draw, words=EXOTIC, longest=60):
    """A text of words with any white space between them."""
    chosen = draw(st.lists(st.sampled_from(words), min_size=1, max_size=longest))
    between = draw(st.lists(spaces, min_size=len(chosen) - 1, max_size=len(chosen) - 1))
    text = chosen[0] + "".join(space + word for space, word in zip(between, chosen[1:], strict=True))
    assume(text.strip())
    return text


def windowed(task, tokenizer, max_length):
    return in_memory(load_split(task, "train"), tokenizer, max_length)


def lengths_and_strides():
    """A max_length, and a stride that it allows, the largest and none among them."""
    return st.integers(10, 40).flatmap(
        lambda length: st.tuples(
            st.just(length), st.sampled_from([None, 0, 1, length // 2 - 4, (length // 2 - 4) // 2])
        )
    )


@every_tokenizer
@settings(max_examples=examples(25))
@given(st.data())
def test_windows_over_a_context(name, data):
    tokenizer = tiny_tokenizer(name)
    backend = tokenizer.backend_tokenizer
    max_length, given_stride = data.draw(lengths_and_strides())
    pairs = data.draw(st.lists(st.tuples(texts(longest=12), texts()), min_size=1, max_size=3))
    stride = stride_of(given_stride, "context", max_length, "s")
    found = windowed(span_task(span_rows(pairs), given_stride), tokenizer, max_length)
    special = tokenizer.num_special_tokens_to_add(pair=True)
    for i, (question, context) in enumerate(pairs):
        asked, alone = (backend.encode(text, add_special_tokens=False).ids for text in (question, context))
        assert found.full_lengths[i] == len(backend.encode(question, context))  # the tokenizer's own count
        rows = [found.ids(r).tolist() for r in found.rows_of(i)]
        assert max(map(len, rows)) <= max_length
        assert all(len(row) == max_length for row in rows[:-1])
        # what is left of the question: all tokens but those of the context, the shared ones twice
        shared = stride * (len(rows) - 1)
        kept, odd = divmod(sum(map(len, rows)) - shared - len(alone), len(rows))
        kept -= special
        assert odd == 0
        assert kept == len(asked) or kept <= min(64, (max_length - special) // 2) < len(asked)
        begin = special - 1 + kept
        assert {tuple(row[:begin]) for row in rows} == {tuple(rows[0][:begin])}
        if kept == len(asked):
            assert rows[0][1 : 1 + kept] == asked
        # every token of the context is in some window, and neighbours share exactly `stride` of them
        windows = [row[begin:-1] for row in rows]
        assert windows[0] + [token for own in windows[1:] for token in own[stride:]] == alone
        for one, other in pairwise(windows):
            assert one[len(one) - stride :] == other[:stride]


@every_tokenizer
@settings(max_examples=examples(20))
@given(st.data())
def test_characters_of_tokens(name, data):
    """A token's characters are those of the tokenizer, in the context alone; every character is found."""
    tokenizer = tiny_tokenizer(name)
    context = data.draw(texts())
    max_length, stride = data.draw(lengths_and_strides())
    found = windowed(span_task(span_rows([("who sees it?", context)]), stride), tokenizer, max_length)
    example = found.example(0)
    expected = tokenizer.backend_tokenizer.encode(context, add_special_tokens=False).offsets
    found_here = set()
    for row, starts, ends in zip(
        found.rows_of(0), example.channel("starts"), example.channel("ends"), strict=True
    ):
        assert len(starts) == len(ends) == found.row_lengths[row]
        assert ((starts < 0) == (ends < 0)).all()
        assert (ends > starts)[starts >= 0].all()  # what is no character can be no answer
        found_here |= {(int(a), int(b)) for a, b in zip(starts, ends, strict=True) if a >= 0}

    def without_space(places):
        # in a window of its own a word may keep the space before it, which answers are stripped of
        every = ([k for k in range(a, b) if not context[k].isspace()] for a, b in places)
        return {(own[0], own[-1]) for own in every if own}

    assert without_space(found_here) == without_space(expected)
    covered = {k for a, b in found_here for k in range(a, b)}
    odd = "\u200b\u00ad\u200d\u0301"  # dropped, or one with the letter before them
    assert {k for k, c in enumerate(context) if not c.isspace() and c not in odd} <= covered


def owners(encoding, sizes, stride):
    """Brute force: of each word, (window, place) where its first token is farthest from the ends."""
    words = [w for w in encoding.word_ids if w is not None]
    firsts = {}
    for place, word in enumerate(words):
        firsts.setdefault(word, place)
    found, begin = {}, 0
    for number, size in enumerate(sizes):
        for word, place in firsts.items():
            if begin <= place < begin + size:
                away = min(place - begin, begin + size - 1 - place)
                if word not in found or away > found[word][0]:
                    found[word] = (away, number, place - begin)
        begin += size - stride
    return {word: where[1:] for word, where in found.items()}


@every_tokenizer
@settings(max_examples=examples(30))
@given(st.data())
def test_windows_over_words(name, data):
    tokenizer = tiny_tokenizer(name)
    max_length, given_stride = data.draw(lengths_and_strides())
    sentences = data.draw(
        st.lists(st.lists(st.sampled_from(EXOTIC), min_size=1, max_size=40), min_size=1, max_size=3)
    )
    stride = stride_of(given_stride, "words", max_length, "t")
    found = windowed(tag_task(sentences, given_stride), tokenizer, max_length)
    space = " " if name in ("roberta", "roberta-prefix", "modernbert") else ""
    for i, words in enumerate(sentences):
        whole = tokenizer.backend_tokenizer.encode([space + w for w in words], is_pretokenized=True)
        assert found.full_lengths[i] == len(whole)
        rows = [found.ids(r).tolist() for r in found.rows_of(i)]
        assert all(len(row) == max_length for row in rows[:-1])
        assert len(rows[-1]) <= max_length
        windows = [row[1:-1] for row in rows]
        assert windows[0] + [token for own in windows[1:] for token in own[stride:]] == whole.ids[1:-1]
        for one, other in pairwise(windows):
            assert one[len(one) - stride :] == other[:stride]
        channel = found.example(i).channel("words")
        owned = {
            int(word): (number, place - 1)
            for number, own in enumerate(channel)
            for place, word in enumerate(own)
            if word >= 0
        }
        assert sum(int((own >= 0).sum()) for own in channel) == len(owned)  # each in one row alone
        assert owned == owners(whole, [len(w) for w in windows], stride)
        assert all(own[0] == own[-1] == -1 for own in channel)


def test_a_word_begins_with_its_space_where_the_tokenizer_tells_it_so():
    """Tokens of words are those of the sentence: `Ġcat`, as the encoder has seen it."""
    for name in ("roberta", "roberta-prefix", "modernbert", "xlm-roberta", "deberta-v3", "wordpiece"):
        tokenizer = tiny_tokenizer(name)
        found = windowed(tag_task([["the", "cat", "sees", "the", "hat"]], None), tokenizer, 40)
        expected = tokenizer.backend_tokenizer.encode(" the cat sees the hat").ids
        assert found.ids(0).tolist() == expected, name


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("question", "kept"), [("who " * 100, 64), ("🙂" * 90, 64), ("antidisestablishmentarianism" * 9, 64)]
)
@every_tokenizer
def test_long_questions_are_cut_and_contexts_are_not(name, question, kept):
    tokenizer = tiny_tokenizer(name)
    context = " ".join(WORDS * 12)
    for max_length in (10, 12, 31, 64, 200):
        for stride in (0, max_length // 2 - 4):
            task = span_task(span_rows([(question, context), (question, "x")]), stride)
            found = windowed(task, tokenizer, max_length)
            covered = {
                k
                for starts, ends in zip(
                    found.example(0).channel("starts"), found.example(0).channel("ends"), strict=True
                )
                for a, b in zip(starts, ends, strict=True)
                for k in range(a, b)
            }
            assert covered >= {k for k, c in enumerate(context) if not c.isspace()}
            assert found.row_lengths.max() <= max_length
            most = min(kept, (max_length - tokenizer.num_special_tokens_to_add(pair=True)) // 2)
            short = found.row_lengths[found.rows_of(1)[0]]
            tokens = len(tokenizer.backend_tokenizer.encode("x", add_special_tokens=False))
            assert short - tokens - tokenizer.num_special_tokens_to_add(pair=True) <= most
            assert found.full_lengths[1] == len(tokenizer.backend_tokenizer.encode(question, "x"))


def test_the_real_tokenizer_on_a_long_context(tokenizer):
    context = "The quick brown fox, née Zürich, jumps over 1987 unaffable dogs. " * 60
    found = windowed(span_task(span_rows([("Who jumps?", context)]), 128), tokenizer, 384)
    expected = tokenizer(
        "Who jumps?",
        context,
        truncation="only_second",
        max_length=384,
        stride=128,
        return_overflowing_tokens=True,
    )
    assert [found.ids(r).tolist() for r in found.rows_of(0)] == expected["input_ids"]
    assert [found.types(r).tolist() for r in found.rows_of(0)] == expected["token_type_ids"]
    assert found.full_lengths[0] == len(tokenizer("Who jumps?", context, verbose=False)["input_ids"])
    assert found.lengths[0] == 384
    assert found.row_counts.tolist() == [len(expected["input_ids"])]


@pytest.mark.parametrize("kind", ["context", "words"])
@pytest.mark.parametrize(("max_length", "stride"), [(10, 2), (64, 29), (384, 189), (9, None), (9, 0), (4, 0)])
def test_strides_that_leave_no_step(kind, max_length, stride):
    with pytest.raises(WeftError, match=rf"task 't': .*(leaves windows of )?max_length {max_length}"):
        stride_of(stride, kind, max_length, "t")
    task = span_task(span_rows([("q", "c")]), stride) if kind == "context" else tag_task([["a"]], stride)
    with pytest.raises(WeftError, match=r"leaves windows of max_length|leaves no room"):
        windowed(task, tiny_tokenizer("roberta"), max_length)


@given(st.integers(10, 600))
def test_the_usual_stride_is_allowed(max_length):
    stride = stride_of(None, "context", max_length, "t")
    assert (
        stride == stride_of(stride, "context", max_length, "t") == min(max_length // 3, max_length // 2 - 4)
    )
    assert stride_of(None, None, max_length, "t") == 0
