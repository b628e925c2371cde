"""The difficulty of a classification task from its texts and labels (Evolutionary Data Measures, EDM).

Collins, Rozanov and Zhang, "Evolutionary Data Measures: Understanding the Difficulty of Text Classification
Tasks", 2018. Difficulty is the sum of five parts. For N rows, n_c of them in class c, C classes that occur:

    distinct words    |V| / number of words
    class imbalance   Σ_c |1/C − n_c/N|
    class diversity   −Σ_c n_c/N·ln(n_c/N)
    similarity        1 − min over pairs c before c' of √(½·Σ_{w in c} (√p_c(w) − √p_c'(w))²)
    information       the mean over [C, C] of I(c, c') = Σ_w p·(ln p − ln p_c(w) − ln p_c'(w)), and of the
                      entropy of p_c on the diagonal; over each class's ten most frequent words

The numbers are those of the authors' package (edm 0.0.4), whose peculiarities are part of the measure: the
sum of the Hellinger distance runs only over the words of the first class (the class whose first word comes
first in the data), so that it depends on the order of the rows; in I, p(w) is (n_c(w) + n_c'(w)) over both
totals, for words that are among the ten of both; if the later of two classes has no word left, their I is the
entropy of the earlier one; a class without any word is ignored in the last two parts.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np

from weft.analysis.stop_words import STOP_WORDS
from weft.errors import WeftError

TOP = 10
"""The number of words per class that the mutual information uses."""

CHUNK = 8192
"""The number of rows that are split into words at once."""

_DROPPED = string.punctuation.encode() + b"\x00\x7f"
# lower case; and the four separators at which Python splits a string, but not bytes
_LOWER = bytes.maketrans(
    string.ascii_uppercase.encode() + b"\x1c\x1d\x1e\x1f", string.ascii_lowercase.encode() + b"    "
)
_STOP_WORDS = frozenset(word.encode() for word in STOP_WORDS)


@dataclass(frozen=True)
class Difficulty:
    """The five parts, in the order in which they are summed."""

    distinct_words: float
    class_imbalance: float
    class_diversity: float
    hellinger_similarity: float
    mutual_information: float

    @property
    def total(self) -> float:
        """The difficulty: their sum."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """Each part by its name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


PARTS = {
    "distinct_words": "distinct words",
    "class_imbalance": "class imbalance",
    "class_diversity": "class diversity",
    "hellinger_similarity": "Hellinger similarity",
    "mutual_information": "mutual information",
}
"""A short name of each part."""


class WordCounts:
    """Counts of words per class; rows are added in the order of the data, in any portions.

    The words of a text: only ASCII characters 1 to 126, without punctuation, in lower case, split at white
    space.

    Attributes:
        rows: the number of rows of each class, in the order in which the classes occur.
        words: the word counts of each class that has a word, in the order of the classes' first words; words
            are in the order in which they occur in the class.
    """

    def __init__(self) -> None:
        self.rows: Counter[int] = Counter()
        self.words: dict[int, Counter[bytes]] = {}

    def add(self, texts: Iterable[str], labels: Iterable[int]) -> None:
        """Count more rows: one text and one class number per row."""
        pairs = zip(texts, labels, strict=True)
        while chunk := list(islice(pairs, CHUNK)):
            self.rows.update(label for _, label in chunk)
            by_class: dict[int, list[str]] = {}
            for text, label in chunk:
                by_class.setdefault(label, []).append(text)
            if by_class.keys() - self.words.keys():
                self._note_first_words(chunk)
            for label, class_texts in by_class.items():
                # one long text is much faster than text by text, and no word crosses a line end
                if label in self.words:
                    self.words[label].update(words_of("\n".join(class_texts)))

    def _note_first_words(self, chunk: Sequence[tuple[str, int]]) -> None:
        """Register the classes whose first word is here: their order decides which pairs are compared."""
        for text, label in chunk:
            if label not in self.words and words_of(text):
                self.words[label] = Counter()


def words_of(text: str) -> list[bytes]:
    """A text's words, as EDM splits it."""
    return text.encode("ascii", "ignore").translate(_LOWER, _DROPPED).split()


def difficulty(texts: Iterable[str], labels: Iterable[int]) -> Difficulty:
    """The difficulty of a classification task.

    Args:
        texts: the text of each row, in the order of the data.
        labels: the number of each row's class.

    Raises:
        WeftError: the difficulty is undefined, because fewer than two classes have a word.
    """
    counts = WordCounts()
    counts.add(texts, labels)
    return difficulty_of(counts)


def difficulty_of(counts: WordCounts) -> Difficulty:
    """The difficulty of a task whose words have been counted."""
    if len(counts.rows) < 2:
        only = "there is one" if counts.rows else "there is no row"
        raise WeftError(f"a difficulty needs rows of two classes or more; {only}")
    if len(counts.words) < 2:
        raise WeftError(
            "a difficulty needs words (ASCII letters or digits) in the texts of two classes or more; "
            f"{len(counts.words) or 'none'} of {len(counts.rows)} has any"
        )
    shares = np.array(list(counts.rows.values())) / counts.rows.total()
    bags = list(counts.words.values())
    return Difficulty(
        distinct_words=len(set().union(*bags)) / sum(bag.total() for bag in bags),
        class_imbalance=float(np.abs(1 / len(shares) - shares).sum()),
        class_diversity=float(-(shares * np.log(shares)).sum()),
        hellinger_similarity=1 - _smallest_distance(bags),
        mutual_information=_mean_information([_top_words(bag) for bag in bags]),
    )


def _smallest_distance(bags: Sequence[Mapping[bytes, int]]) -> float:
    """The smallest Hellinger distance of two classes, over the words of the earlier class only."""
    numbers: dict[bytes, int] = {}
    word_ids, roots = [], []  # for each class the ids of its words, and √p of each
    for bag in bags:
        ids = np.fromiter((numbers.setdefault(word, len(numbers)) for word in bag), np.int64, len(bag))
        count = np.fromiter(bag.values(), np.float64, len(bag))
        word_ids.append(ids)
        roots.append(np.sqrt(count / count.sum()))
    smallest = np.inf
    later = np.zeros(len(numbers))  # √q of one class over all words: no matrix of classes by words is built
    for second in range(1, len(bags)):
        later[word_ids[second]] = roots[second]
        for first in range(second):
            # not 1 + Σq − 2·Σ√(pq): for equal classes only rounding would remain, and its root is large
            squares = np.square(roots[first] - later[word_ids[first]]).sum()
            smallest = min(smallest, float(np.sqrt(squares)) / np.sqrt(2))
        later[word_ids[second]] = 0.0
    return float(smallest)


def _top_words(bag: Counter[bytes]) -> dict[bytes, int]:
    """The most frequent words without stop words; of equally frequent words the earlier."""
    ranked = sorted(bag.items(), key=lambda item: -item[1])
    return dict(islice((item for item in ranked if item[0] not in _STOP_WORDS), TOP))


def _mean_information(bags: Sequence[Mapping[bytes, int]]) -> float:
    """The mean of the matrix [C, C] of the classes' mutual information, their entropy on the diagonal."""
    total = 0.0
    for second, bag in enumerate(bags):
        total += _entropy(bag)
        total += 2 * sum(_information(bags[first], bag) for first in range(second))
    return total / len(bags) ** 2


def _information(first: Mapping[bytes, int], second: Mapping[bytes, int]) -> float:
    if not second:
        return _entropy(first)
    both = [word for word in first if word in second]
    n = np.array([first[word] for word in both], float)
    m = np.array([second[word] for word in both], float)
    total, other_total = sum(first.values()), sum(second.values())
    p = (n + m) / (total + other_total)
    return float((p * (np.log(p) - np.log(n / max(total, 1)) - np.log(m / other_total))).sum())


def _entropy(bag: Mapping[bytes, int]) -> float:
    p = np.array(list(bag.values()), float) / max(sum(bag.values()), 1)
    return float(-(p * np.log(p)).sum())
