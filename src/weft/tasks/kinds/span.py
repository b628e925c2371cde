"""`span`: the answer to a question is a piece of a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

from weft.errors import WeftError
from weft.tasks.kinds.kind import Inputs, Kind, Oddity
from weft.tasks.values import listed, whole, wrong_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task

LONGEST = 30
"""The most tokens of an answer that is given."""


NOWHERE = -1
"""The place of an answer that is written otherwise than in the context: answers are judged by it, if there is
such a one, and never learnt from it (MRQA)."""


class Found(NamedTuple):
    """A piece of the context: its first character, the one after its last, and its score."""

    start: int
    end: int
    score: float


class Span(Kind):
    """A start and an end among the tokens of a row of `[question] [context]`.

    A long context becomes several rows, windows that share `stride` tokens. In each, the target is the
    first gold answer's first and last token or, where the window does not hold it whole, the row's first
    token: ℓ = mean over windows of (CE(start) + CE(end)) / 2. The answer is the piece of the context with the
    largest start + end logit over all windows, of LONGEST tokens at the most.
    """

    name = "span"
    has_uncertainty = True
    answer_types = ("texts",)
    options = ("stride",)
    texts = (2, 2)
    reads = "tokens"
    answers_by = "token"
    targets_by = "row"
    target_type = "int64"
    windows = "context"
    channels = ("starts", "ends")

    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """Start and end."""
        if labels or size not in (None, 2):
            raise WeftError(f"task {task!r}: span has no labels and no size of its own; leave them out")
        return 2

    def parse(self, values: Sequence[object], labels: Sequence[str]) -> list[tuple[str, int]]:
        """(text, first character) of each gold answer."""
        expected = ValueError('answers as {"text": ["…"], "answer_start": [0]}')
        value = values[0]
        if not isinstance(value, Mapping):
            raise expected
        texts, starts = listed(value.get("text")), listed(value.get("answer_start"))
        if texts is None or starts is None or len(texts) != len(starts):
            raise expected
        places = [whole(start) for start in starts]  # −1: nowhere, and only to judge by
        if any(wrong_text(text) for text in texts) or any(place is None for place in places):
            raise expected
        if not texts:
            raise ValueError("one answer or more; a question without an answer cannot be learnt here")
        found = [(str(text), place) for text, place in zip(texts, places, strict=True) if place is not None]
        if all(place == NOWHERE for _, place in found):
            raise ValueError("one answer or more with its place in the context")
        return found

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Each answer stands in the context where it says."""
        context = inputs.texts[1]
        for text, start in label:
            if start == NOWHERE:
                continue
            found = context[start : start + len(text)] if 0 <= start < len(context) else None
            if found is None or start + len(text) > len(context):
                raise ValueError(
                    f"a place inside the context of {len(context)} characters for the answer {text[:40]!r}"
                )
            if found != text:
                raise ValueError(
                    f"the answer {text[:40]!r} at character {start}, where the context has {found[:40]!r}"
                )

    def target(self, label: Any, task: Task, example: ExampleRows) -> list[tuple[int, int]]:
        """(first token, last token) of the first gold answer in each window; (0, 0) where it is not whole."""
        text, start = placed(label)
        return [place or (0, 0) for place in token_places(example, start, start + len(text))]

    def check(self, value: Any, size: int) -> None:
        """A pair of tokens for each row."""
        pairs = value if isinstance(value, list | tuple) else [None]
        if not pairs or not all(
            isinstance(p, list | tuple) and len(p) == 2 and all(type(x) is int and x >= 0 for x in p)
            for p in pairs
        ):
            raise ValueError("a list of (first token, last token), one for each row of the example")

    def target_shape(self, size: int) -> tuple[int, ...]:
        """First and last token."""
        return (2,)

    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The mean over an example's windows of (CE(start) + CE(end)) / 2, [E]; padding has no share."""
        import torch
        from torch.nn import functional as F

        scores = logits.float()  # [R, L, 2]
        if layout.mask is not None:
            scores = scores.masked_fill(~layout.mask[:, :, None], torch.finfo(scores.dtype).min)
        places = labels.clamp(0, scores.size(1) - 1)
        ends = [F.cross_entropy(scores[:, :, k], places[:, k], reduction="none") for k in (0, 1)]
        return layout.mean((ends[0] + ends[1]) / 2)

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The mean over windows of (that of the start + that of the end) / 2, [E].

        Each is over the tokens of its row, C of them: those that the loss chooses among, the first one, for
        a window without the answer, included.
        """
        from weft.tasks.kinds.uncertainty import of_classes

        keep = None if layout.mask is None else layout.mask[:, None, :]
        each = of_classes(logits.transpose(1, 2), measure, keep)  # [R, 2]
        return layout.mean(each.mean(1))

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[str]:
        """The answers' texts."""
        found = []
        for x, example in zip(logits, examples, strict=True):
            best = best_span(x, example)
            found.append(example.texts[1][best.start : best.end].strip())
        return found

    def gold(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[list[str]]:
        """The texts of all gold answers, or of those that are there to judge by."""
        found = []
        for label in labels:
            judging = [text for text, start in label if start == NOWHERE]
            found.append(judging or [text for text, _ in label])
        return found

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[str]:
        """Nothing is known of a text that was not read: no answer."""
        return [""] * len(examples)

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """Gold answers an example, and their mean length in characters."""
        texts = [text for label in labels for text, _ in label]
        return {
            "answers an example": len(texts) / len(labels),
            "characters an answer": sum(map(len, texts)) / len(texts),
        }

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Answers that no window holds whole, and answers longer than any that is given."""
        labels: Any = tokens.labels
        lost, long = [], []
        for i, label in enumerate(labels or ()):
            text, start = placed(label)
            places = [p for p in token_places(tokens.example(i), start, start + len(text)) if p]
            if not places:
                lost.append(i)
            elif min(last - first for first, last in places) >= LONGEST:
                long.append(i)
        column = tokens.split.task.label_columns[0]
        if lost:
            message = (
                f"{len(lost)} answers are in no window whole, and cannot be learnt; raise "
                "train.max_length or the task's stride"
            )
            yield Oddity(message, column, len(lost), lost[0])
        if long:
            message = f"{len(long)} answers have more than {LONGEST} tokens, the most that are ever given"
            yield Oddity(message, column, len(long), long[0], "note")

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The answer, where it is in the context, and its score."""
        best = best_span(logits, example)
        text = example.texts[1][best.start : best.end]
        # some tokenizers count the space before a word to it
        start = best.start + len(text) - len(text.lstrip())
        text = text.strip()
        return {"answer": text, "start": start, "end": start + len(text), "score": best.score}


def placed(label: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The first gold answer that has a place in the context."""
    return next((text, start) for text, start in label if start != NOWHERE)


def token_places(example: ExampleRows, start: int, end: int) -> list[tuple[int, int] | None]:
    """The first and the last token of characters start … end − 1 in each row, None where not whole."""
    import numpy as np

    found: list[tuple[int, int] | None] = []
    last = example.count - 1
    rows = zip(example.channel("starts"), example.channel("ends"), strict=True)
    for number, (starts, ends) in enumerate(rows):
        inside = np.flatnonzero(starts >= 0)
        # the window must hold all of it: its first character, and its last. Before the first window and after
        # the last there are at the most characters that the tokenizer drops
        if (
            not len(inside)
            or (number > 0 and starts[inside[0]] > start)
            or (number < last and ends[inside[-1]] < end)
        ):
            found.append(None)
            continue
        touched = inside[(ends[inside] > start) & (starts[inside] < end)]
        found.append((int(touched[0]), int(touched[-1])) if len(touched) else None)
    return found


def best_span(logits: NDArray[np.float32], example: ExampleRows) -> Found:
    """The best piece of the context over all windows; logits [all rows' tokens, 2]."""
    import numpy as np

    best = Found(0, 0, -np.inf)
    first = 0
    for starts, ends in zip(example.channel("starts"), example.channel("ends"), strict=True):
        own = logits[first : first + len(starts)]
        first += len(starts)
        inside = np.flatnonzero(starts >= 0)
        if not len(inside):
            continue
        begin, stop = own[inside, 0], own[inside, 1]
        scores = np.where(_allowed(len(inside)), begin[:, None] + stop[None, :], -np.inf)
        i, j = divmod(int(scores.argmax()), len(inside))
        if scores[i, j] > best.score:
            best = Found(int(starts[inside[i]]), int(ends[inside[j]]), float(scores[i, j]))
    if not np.isfinite(best.score):
        return Found(0, 0, 0.0)
    return best._replace(end=_with_accents(example.texts[1], best.end))


def _with_accents(text: str, end: int) -> int:
    """The end of a piece, after the accents of its last letter, which some tokenizers leave out."""
    while end < len(text) and category(text[end]).startswith("M"):
        end += 1
    return end


def _allowed(size: int) -> NDArray[Any]:
    """Which (first, last) are in order and not too far apart, [n, n]."""
    import numpy as np

    away = np.arange(size)[None, :] - np.arange(size)[:, None]
    return (away >= 0) & (away < LONGEST)
