"""`tag`: one tag per word, for entities (B-, I- and O) or any other tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.tasks.kinds.kind import BadValue, ColumnValues, Inputs, Oddity
from weft.tasks.kinds.labelled import Labelled, label_id
from weft.tasks.values import listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task

OUTSIDE = "O"
NOT_A_WORD = -100
"""The target of a token that does not begin a word."""


class Tag(Labelled):
    """Cross-entropy at the first sub-word of each word, ℓ = mean over words; a label is one tag per word.

    A long sentence becomes several rows, windows that share `stride` tokens. Each word belongs to the window
    in which it is farthest from the ends; it is trained and predicted only there. Illegal BIO tags are
    repaired when entities are counted: an I-X that follows neither B-X nor I-X begins an entity.
    """

    name = "tag"
    pipeline_tag = "token-classification"
    has_uncertainty = True
    answer_types = ("entities", "tags")
    options = ("stride",)
    texts = (1, 1)
    reads = "tokens"
    answers_by = targets_by = "token"
    target_type = "int64"
    kept_type = "int32"
    stand_in = NOT_A_WORD
    windows = "words"
    channels = ("words",)

    def answer_types_of(self, task: Task) -> tuple[str, ...]:
        """Only BIO tags name entities."""
        return self.answer_types if is_bio(task.labels) else ("tags",)

    def inputs(self, task: Task, values: ColumnValues) -> tuple[Inputs, list[BadValue]]:
        """Return the words: the items of a list, or a text split at white space."""
        value = values.texts[0]
        words = value.split() if isinstance(value, str) else listed(value)
        column = task.texts[0]
        if not words:
            return Inputs(()), [BadValue(column, value, "expected a list of words, one or more")]
        for number, word in enumerate(words):
            if not isinstance(word, str) or not word:
                message = f"expected a list of words; word {number + 1} is {word!r}"
                return Inputs(()), [BadValue(column, value, message)]
            try:
                word.encode()
            except UnicodeEncodeError:
                message = f"expected valid Unicode; word {number + 1} has half of a surrogate pair"
                return Inputs(()), [BadValue(column, value, message)]
        return Inputs(tuple(str(word) for word in words)), []

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> list[int]:
        """Return one tag id per word, from names or ids."""
        value = _tags(values[0])
        if value is None:
            raise ValueError("a list of tags, one per word")
        ids = []
        for number, tag in enumerate(value):
            try:
                ids.append(label_id(tag, labels))
            except ValueError as expected:
                raise ValueError(f"{expected}; the tag of word {number + 1} is {tag!r}") from None
        return ids

    def items(self, value: object) -> Sequence[object]:
        """The tags of a list, or of a text split at white space."""
        return _tags(value) or ()

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Accept as many tags as words."""
        if len(label) != len(inputs.texts):
            raise ValueError(f"{len(inputs.texts)} tags, one per word; there are {len(label)}")

    def target(self, label: Any, task: Task, example: ExampleRows) -> list[list[int]]:
        """Per row: the tag id at every token that begins a word of this window, else NOT_A_WORD."""
        import numpy as np

        tags = np.asarray(label, np.int64)
        targets = []
        for words in example.channel("words"):
            begins_word = words >= 0
            targets.append(np.where(begins_word, tags[np.where(begins_word, words, 0)], NOT_A_WORD).tolist())
        return targets

    def check(self, value: Any, size: int) -> None:
        """Accept one list per row, of ids below the size or NOT_A_WORD."""
        rows = value if isinstance(value, list | tuple) and value else [None]
        if not all(isinstance(row, list | tuple) and _is_valid(row, size) for row in rows):
            raise ValueError(
                f"one list per row of the example, with a tag id (0 to {size - 1}) or {NOT_A_WORD} per token"
            )

    def as_array(self, value: Any, size: int) -> NDArray[Any]:
        """Tag ids, [tokens of all rows]."""
        import numpy as np

        return np.concatenate([np.asarray(row, self.target_type) for row in value])

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The mean over an example's words of −log softmax(logits)[tag], [E]; 0 if it has none."""
        from torch.nn import functional as F

        length, size = logits.shape[1:]
        labels = F.pad(labels, (0, max(0, length - labels.size(1))), value=NOT_A_WORD)[:, :length]
        # the tag of a task with more tags is out of range here; its weight is 0
        labels = labels.clamp(max=size - 1)
        losses = F.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), reduction="none", ignore_index=NOT_A_WORD
        ).view_as(labels)
        words = layout.sum((labels != NOT_A_WORD).float().sum(1))
        return layout.sum(losses.sum(1)) / words.clamp(min=1)

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The mean over an example's words of the uncertainty over the C tags, [E]; 0 if it has none.

        Words are the tokens for which `labels` has a tag, as in the loss; without `labels`, all tokens.
        """
        from torch.nn import functional as F

        from weft.tasks.kinds.uncertainty import of_classes

        per_token = of_classes(logits, measure)  # [R, L]
        if labels is not None:
            length = logits.size(1)
            labels = F.pad(labels, (0, max(0, length - labels.size(1))), value=NOT_A_WORD)[:, :length]
            is_word = (labels != NOT_A_WORD).float()
        else:
            is_word = per_token.new_ones(per_token.shape) if layout.mask is None else layout.mask.float()
        return layout.sum((per_token * is_word).sum(1)) / layout.sum(is_word.sum(1)).clamp(min=1)

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[list[str]]:
        """One tag name per word, as predicted: metrics repair illegal BIO tags."""
        pairs = zip(logits, examples, strict=True)
        return [[task.labels[i] for i in tags_of(x, task.labels, example)] for x, example in pairs]

    def gold(
        self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]
    ) -> list[tuple[tuple[str, ...], list[str]]]:
        """(words, names of their tags) of each sentence."""
        pairs = zip(labels, examples, strict=True)
        return [(example.texts, [task.labels[i] for i in label]) for label, example in pairs]

    def decisions(
        self,
        logits: Sequence[NDArray[np.float32]],
        labels: Sequence[Any],
        task: Task,
        examples: Sequence[ExampleRows],
    ) -> Decisions:
        """One decision per word that has a token, among the C tags."""
        import numpy as np

        from weft.tasks.kinds.decisions import Decisions

        scores, gold, sentence = [], [], []
        for number, (x, label, example) in enumerate(zip(logits, labels, examples, strict=True)):
            words = np.concatenate(example.channel("words"))
            begins_word = np.flatnonzero(words >= 0)
            scores.append(x[begins_word])
            gold.append(np.asarray(label, np.int64)[words[begins_word]])
            sentence.append(np.full(len(begins_word), number))
        every = (np.concatenate(parts) for parts in (scores, gold, sentence))
        return Decisions.of_classes(next(every), next(every), "word", next(every))

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[list[str]]:
        """The most frequent tag for every word."""
        import numpy as np

        tag = task.labels[int(np.bincount([tag for tags in labels for tag in tags]).argmax())]
        return [[tag] * len(example.texts) for example in examples]

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """How many words have each tag."""
        counts = Counter(tag for tags in labels for tag in tags)
        return {name: counts[number] for number, name in enumerate(task.labels)}

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Illegal BIO tags, and words for which the tokenizer returns no token."""
        from weft.metrics.bio import illegal

        task = tokens.split.task
        labels: Any = tokens.labels
        if labels is not None and is_bio(task.labels):
            counts = [illegal([task.labels[tag] for tag in tags]) for tags in labels]
            if wrong := [i for i, count in enumerate(counts) if count]:
                message = (
                    f"{sum(counts)} tags in {len(wrong)} sentences are illegal BIO: an I-X that follows "
                    "neither B-X nor I-X is counted as the beginning of an entity"
                )
                yield Oddity(message, task.label_columns[0], sum(counts), wrong[0])
        words = [
            sum(int((row >= 0).sum()) for row in tokens.example(i).channel("words"))
            for i in range(len(tokens))
        ]
        without_token = [i for i, count in enumerate(words) if count < len(tokens.split.texts[i])]
        if without_token:
            missing = sum(len(tokens.split.texts[i]) - words[i] for i in without_token)
            message = f"{missing} words have no token and are always tagged {OUTSIDE}"
            yield Oddity(message, task.texts[0], missing, without_token[0], "note")

    def example_answer(self, task: Task) -> dict[str, Any]:
        """Tags; entities if the tags are BIO."""
        entity = {"type": "", "text": "", "first": 0, "last": 0}
        return {"tags": [""], "entities": [entity]} if is_bio(task.labels) else {"tags": [""]}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The tags; if they are BIO, repaired and with the entities that they name."""
        from weft.metrics.bio import entities, repaired

        tags = [task.labels[i] for i in tags_of(logits, task.labels, example)]
        if not is_bio(task.labels):
            return {"tags": tags}
        spans = [
            {"type": kind, "text": " ".join(example.texts[first:stop]), "first": first, "last": stop - 1}
            for kind, first, stop in entities(tags)
        ]
        return {"tags": repaired(tags), "entities": spans}


def is_bio(labels: Sequence[str]) -> bool:
    """Whether these labels are BIO tags: O, B-X and I-X."""
    return "O" in labels and all(tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2) for tag in labels)


def tags_of(logits: NDArray[np.float32], labels: Sequence[str], example: ExampleRows) -> list[int]:
    """Return the most likely tag of each word, O without a token; logits [tokens of all rows, C]."""
    import numpy as np

    tags = np.full(len(example.texts), labels.index(OUTSIDE) if OUTSIDE in labels else 0)
    words = np.concatenate(example.channel("words"))
    begins_word = np.flatnonzero(words >= 0)
    tags[words[begins_word]] = logits[begins_word].argmax(-1)
    return [int(tag) for tag in tags]


def _is_valid(row: Sequence[Any], size: int) -> bool:
    return all(type(x) is int and (0 <= x < size or x == NOT_A_WORD) for x in row)


def _tags(value: object) -> list[object] | None:
    """The tags of a cell; None if it is neither a list nor a text."""
    return list(value.split()) if isinstance(value, str) else listed(value)
