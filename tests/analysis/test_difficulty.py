"""The difficulty of tasks, against the authors' package."""

from __future__ import annotations

import contextlib
import io
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.paths import real_data
from weft.analysis.difficulty import PARTS, Difficulty, WordCounts, difficulty, difficulty_of, words_of
from weft.analysis.plots.difficulty import by_difficulty, write_picture
from weft.analysis.stop_words import STOP_WORDS
from weft.data.splits.split import load_split
from weft.errors import WeftError
from weft.suites import load_suite

edm = pytest.importorskip("edm.report.report_creator", reason="the package edm is not installed")

PACKAGE = {
    "Distinct Words : Total Words": "distinct_words",
    "Class Imbalance": "class_imbalance",
    "Class Diversity": "class_diversity",
    "Max. Hellinger Similarity": "hellinger_similarity",
    "Mutual Information": "mutual_information",
}
WORDS = (
    "the",
    "Not",
    "cat",
    "dog's",
    "Dog",
    "dogs",
    "naïve",
    "日本",
    "--",
    "a.b",
    "x\x1cy",
    "\x00z",
    "\x7fq",
    "7",
)
WORD_TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
TEXTS = WORD_TEXTS | st.text(max_size=12) | st.text("ab .,!é\t\x0b\x1f\x85\u2028", max_size=12)
ROWS = st.lists(st.tuples(TEXTS, st.integers(0, 3)), min_size=2, max_size=30)


def package(texts, labels):
    """What the package finds, without its bar: it is drawn for every row, and for ever below 30 rows."""
    from edm.datastructures import data_structures

    with contextlib.redirect_stdout(io.StringIO()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_structures, "_loading_bar", lambda count, *_: count + 1)
        found = edm.get_difficulty_components_dict(texts, labels)
    return {name: float(value) for name, (value, _) in found.items()}


def assert_equal_to_package(texts, labels):
    ours, theirs = difficulty(texts, labels), package(texts, labels)
    for name, part in PACKAGE.items():
        assert getattr(ours, part) == pytest.approx(theirs[name], rel=0, abs=1e-12), part
    assert ours.total == pytest.approx(theirs["Difficulty"], rel=0, abs=1e-12)


@given(ROWS)
@example([("cat", 0), ("the", 1)])  # the later class has stop words alone
@example([("the", 0), ("cat", 1)])
@example([("the", 0), ("not", 1)])
@example([("cat", 1), ("", 0), ("dog", 2)])  # a class without a word
@example([("", 0), ("b", 1), ("a b", 0)])  # the first class by its first word, not by its first row
@example([("a b b", 0), ("b c", 1)])  # the distance depends on which class is first
def test_it_is_the_package_on_any_texts(rows):
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    with_words = {label for text, label in rows if words_of(text)}
    if len(with_words) < 2:
        with pytest.raises((ValueError, ZeroDivisionError)):
            package(texts, labels)
        with pytest.raises(WeftError, match="a difficulty needs"):
            difficulty(texts, labels)
        return
    assert_equal_to_package(texts, labels)


@given(st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 5)), min_size=9))
def test_it_is_the_package_where_many_words_are_equally_frequent(rows):
    texts = [" ".join(f"w{n}" for n in words) + " w1" for words, _ in rows]
    labels = [n % 2 if n < 2 else label for n, (_, label) in enumerate(rows)]
    assert_equal_to_package(texts, labels)


@given(TEXTS)
def test_words_are_the_packages(text):
    from edm.datastructures import data_structures

    assert [word.decode() for word in words_of(text)] == data_structures.tokenize_sentence(text)


def test_stop_words_are_the_packages():
    from edm.datastructures import data_structures

    assert data_structures.STOPWORDS == STOP_WORDS


@given(ROWS, st.integers(1, 9))
def test_portions_give_what_all_rows_give(rows, size):
    whole, parts = WordCounts(), WordCounts()
    whole.add(*zip(*rows, strict=True))
    for first in range(0, len(rows), size):
        parts.add(*zip(*rows[first : first + size], strict=True))
    assert [*parts.rows.items()] == [*whole.rows.items()]
    assert list(parts.words) == list(whole.words)
    for label, bag in whole.words.items():
        assert [*parts.words[label].items()] == [*bag.items()]  # in the same order too
    if len(whole.words) > 1:
        assert difficulty_of(parts) == difficulty_of(whole)


@pytest.mark.parametrize("name", ["cola", "mrpc", "rte"])
def test_it_is_the_package_on_real_tasks(name):
    (task,) = load_suite("glue", root=real_data(), only=[name])
    split = load_split(task, "train")
    assert_equal_to_package([" ".join(texts) for texts in split.texts], split.labels)


def test_equal_classes_have_no_distance():
    found = difficulty(["cat dog dog", "cat dog dog cat dog dog"], [0, 1])
    assert found.hellinger_similarity == 1
    assert found.class_imbalance == 0
    assert found.class_diversity == pytest.approx(math.log(2))
    assert found.distinct_words == 2 / 9


def test_the_distance_is_that_of_the_first_class():
    one, other = difficulty(["a b b", "b c"], [0, 1]), difficulty(["b c", "a b b"], [0, 1])
    assert one.hellinger_similarity != pytest.approx(other.hellinger_similarity)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["a"], [0], "rows of two classes or more; there is one"),
        ([], [], "rows of two classes or more; there is no row"),
        (["a", "…"], [0, 1], "words .* in the texts of two classes or more; 1 of 2 has any"),
        (["日", "…"], [0, 1], "none of 2 has any"),
    ],
)
def test_what_has_no_difficulty_is_told(texts, labels, message):
    with pytest.raises(WeftError, match=message):
        difficulty(texts, labels)


def test_the_picture(tmp_path):
    found = {"easy": Difficulty(0.1, 0, 0.5, 0.25, -0.125), "hard": Difficulty(0.1, 0.5, 1, 0.5, 2)}
    assert by_difficulty(found) == ["hard", "easy"]
    for name in ("a.svg", "b.svg", "a.png"):
        write_picture(found, tmp_path / name, "how difficult")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "b.svg").read_text(encoding="utf-8") == text
    for word in (*PARTS.values(), "hard", "easy", " 4.10", " 0.72", "how difficult"):
        assert f">{word}<" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
