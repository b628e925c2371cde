"""`tag`: a tag for each word: entities as B-, I- and O, or any other tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.tasks.kinds.kind import Given, Inputs, Oddity, Wrong
from weft.tasks.kinds.labelled import Labelled, label_id
from weft.tasks.values import listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task

OUTSIDE = "O"
NOT_A_WORD = -100
"""The target of a token that begins no word."""


class Tag(Labelled):
    """Cross-entropy at the first sub-word of every word, ℓ = mean over the words; a label is a tag a word.

    A long sentence becomes several rows, windows that share `stride` tokens. Each word belongs to one of
    them, where it is farthest from the window's ends: it is learnt and answered there alone. Tags that are no
    legal BIO are repaired where entities are counted: an I-X that follows neither B-X nor I-X begins one.
    """

    name = "tag"
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
        """Tags that are no BIO name no entities."""
        return self.answer_types if is_bio(task.labels) else ("tags",)

    def inputs(self, task: Task, given: Given) -> tuple[Inputs, list[Wrong]]:
        """The words: a list of them, or a text that is cut at white space."""
        value = given.texts[0]
        words = value.split() if isinstance(value, str) else listed(value)
        column = task.texts[0]
        if not words:
            return Inputs(()), [Wrong(column, value, "expected a list of words, one or more")]
        for number, word in enumerate(words):
            if not isinstance(word, str) or not word:
                message = f"expected a list of words; word {number + 1} is {word!r}"
                return Inputs(()), [Wrong(column, value, message)]
            try:
                word.encode()
            except UnicodeEncodeError:
                message = f"expected valid Unicode; word {number + 1} has half of a surrogate pair"
                return Inputs(()), [Wrong(column, value, message)]
        return Inputs(tuple(str(word) for word in words)), []

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> list[int]:
        """A tag's id for each word, from names or ids."""
        value = values[0].split() if isinstance(values[0], str) else listed(values[0])
        if value is None:
            raise ValueError("a list of tags, one a word")
        found = []
        for number, tag in enumerate(value):
            try:
                found.append(label_id(tag, labels))
            except ValueError as expected:
                raise ValueError(f"{expected}; the tag of word {number + 1} is {tag!r}") from None
        return found

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """As many tags as words."""
        if len(label) != len(inputs.texts):
            raise ValueError(f"{len(inputs.texts)} tags, one for each word; these are {len(label)}")

    def target(self, label: Any, task: Task, example: ExampleRows) -> list[list[int]]:
        """For each row a tag's id at every token that begins a word of its own, else NOT_A_WORD."""
        import numpy as np

        tags = np.asarray(label, np.int64)
        found = []
        for words in example.channel("words"):
            here = words >= 0
            found.append(np.where(here, tags[np.where(here, words, 0)], NOT_A_WORD).tolist())
        return found

    def check(self, value: Any, size: int) -> None:
        """Ids below the size, or NOT_A_WORD, a list for each row."""
        rows = value if isinstance(value, list | tuple) and value else [None]
        if not all(isinstance(row, list | tuple) and _sound(row, size) for row in rows):
            raise ValueError(
                f"a list for each row of the example, of tag ids from 0 to {size - 1} or {NOT_A_WORD} a token"
            )

    def as_array(self, value: Any, size: int) -> NDArray[Any]:
        """Tag ids, [tokens of all rows]."""
        import numpy as np

        return np.concatenate([np.asarray(row, self.target_type) for row in value])

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The mean over an example's words of −log softmax(logits)[tag], [E]; 0 of none."""
        from torch.nn import functional as F

        length, size = logits.shape[1:]
        labels = F.pad(labels, (0, max(0, length - labels.size(1))), value=NOT_A_WORD)[:, :length]
        # a tag of a task with more tags is out of range here; its weight is 0
        labels = labels.clamp(max=size - 1)
        each = F.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), reduction="none", ignore_index=NOT_A_WORD
        ).view_as(labels)
        words = layout.sum((labels != NOT_A_WORD).float().sum(1))
        return layout.sum(each.sum(1)) / words.clamp(min=1)

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The mean over an example's words of that over the C tags, [E]; 0 of none.

        Words are where `labels` has a tag, as for the loss; without `labels`, every token is taken for one.
        """
        from torch.nn import functional as F

        from weft.tasks.kinds.uncertainty import of_classes

        each = of_classes(logits, measure)  # [R, L]
        if labels is not None:
            length = logits.size(1)
            labels = F.pad(labels, (0, max(0, length - labels.size(1))), value=NOT_A_WORD)[:, :length]
            here = (labels != NOT_A_WORD).float()
        else:
            here = each.new_ones(each.shape) if layout.mask is None else layout.mask.float()
        return layout.sum((each * here).sum(1)) / layout.sum(here.sum(1)).clamp(min=1)

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[list[str]]:
        """A tag's name for each word, as the model has it: metrics repair what is no BIO."""
        pairs = zip(logits, examples, strict=True)
        return [[task.labels[i] for i in tags_of(x, task.labels, example)] for x, example in pairs]

    def gold(
        self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]
    ) -> list[tuple[tuple[str, ...], list[str]]]:
        """(words, tags' names) of each sentence."""
        pairs = zip(labels, examples, strict=True)
        return [(example.texts, [task.labels[i] for i in label]) for label, example in pairs]

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[list[str]]:
        """The most frequent tag for every word."""
        import numpy as np

        tag = task.labels[int(np.bincount([tag for own in labels for tag in own]).argmax())]
        return [[tag] * len(example.texts) for example in examples]

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """How many words have each tag."""
        counts = Counter(tag for own in labels for tag in own)
        return {name: counts[number] for number, name in enumerate(task.labels)}

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Tags that are no legal BIO, and words that the tokenizer makes nothing of."""
        from weft.metrics.bio import illegal

        task = tokens.split.task
        labels: Any = tokens.labels
        if labels is not None and is_bio(task.labels):
            counts = [illegal([task.labels[tag] for tag in own]) for own in labels]
            if wrong := [i for i, count in enumerate(counts) if count]:
                message = (
                    f"{sum(counts)} tags in {len(wrong)} sentences are no legal BIO: an I-X that follows "
                    "neither B-X nor I-X is counted as the beginning of an entity"
                )
                yield Oddity(message, task.label_columns[0], sum(counts), wrong[0])
        words = [
            sum(int((own >= 0).sum()) for own in tokens.example(i).channel("words"))
            for i in range(len(tokens))
        ]
        silent = [i for i, count in enumerate(words) if count < len(tokens.split.texts[i])]
        if silent:
            missing = sum(len(tokens.split.texts[i]) - words[i] for i in silent)
            message = f"{missing} words have no token, and are answered with {OUTSIDE}"
            yield Oddity(message, task.texts[0], missing, silent[0], "note")

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The tags, repaired where they are BIO, and the entities they make."""
        from weft.metrics.bio import entities, repaired

        tags = [task.labels[i] for i in tags_of(logits, task.labels, example)]
        if not is_bio(task.labels):
            return {"tags": tags}
        found = [
            {"type": kind, "text": " ".join(example.texts[first:stop]), "first": first, "last": stop - 1}
            for kind, first, stop in entities(tags)
        ]
        return {"tags": repaired(tags), "entities": found}


def is_bio(labels: Sequence[str]) -> bool:
    """Whether these are the tags of entities: O, B-X and I-X."""
    return "O" in labels and all(tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2) for tag in labels)


def tags_of(logits: NDArray[np.float32], labels: Sequence[str], example: ExampleRows) -> list[int]:
    """The most likely tag of each word; logits [all rows' tokens, C]. A word without a token is O."""
    import numpy as np

    found = np.full(len(example.texts), labels.index(OUTSIDE) if OUTSIDE in labels else 0)
    words = np.concatenate(example.channel("words"))
    here = np.flatnonzero(words >= 0)
    found[words[here]] = logits[here].argmax(-1)
    return [int(tag) for tag in found]


def _sound(row: Sequence[Any], size: int) -> bool:
    return all(type(x) is int and (0 <= x < size or x == NOT_A_WORD) for x in row)
