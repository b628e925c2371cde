"""`span`: extractive question answering; the answer is a span of the context."""

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
"""The maximal number of tokens of a predicted answer."""


NOWHERE = -1
"""The start of a gold answer that does not occur in the context as written (MRQA). If an example has such
answers, predictions are judged by them; they are never trained on."""


class ContextSpan(NamedTuple):
    """A span of the context: its first character, its last character + 1, and its score."""

    start: int
    end: int
    score: float


class Span(Kind):
    """A start and an end among the tokens of a row of `[question] [context]`.

    A long context becomes several rows, windows that share `stride` tokens. The target of a window is the
    first and the last token of the first gold answer, or the row's first token if the window does not
    contain the whole answer: ℓ = mean over windows of (CE(start) + CE(end)) / 2. The predicted answer is the
    span of at most LONGEST tokens with the largest start + end logit over all windows.
    """

    name = "span"
    pipeline_tag = "question-answering"
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
            raise WeftError(f"task {task!r}: span has neither labels nor size; remove them")
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
        positions = [whole(start) for start in starts]  # −1 (NOWHERE): used for evaluation only
        if any(wrong_text(text) for text in texts) or any(position is None for position in positions):
            raise expected
        if not texts:
            raise ValueError(
                "one answer or more; questions without an answer are not supported: leave them out with "
                "drop: [null] in the task"
            )
        answers = [
            (str(text), position)
            for text, position in zip(texts, positions, strict=True)
            if position is not None
        ]
        if all(position == NOWHERE for _, position in answers):
            raise ValueError("at least one answer with its position in the context")
        return answers

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Accept answers that occur in the context at their `answer_start`."""
        context = inputs.texts[1]
        for text, start in label:
            if start == NOWHERE:
                continue
            excerpt = context[start : start + len(text)] if 0 <= start < len(context) else None
            if excerpt is None or start + len(text) > len(context):
                raise ValueError(
                    f"a position inside the context of {len(context)} characters for the answer {text[:40]!r}"
                )
            if excerpt != text:
                raise ValueError(
                    f"the answer {text[:40]!r} at character {start}, where the context has {excerpt[:40]!r}"
                )

    def target(self, label: Any, task: Task, example: ExampleRows) -> list[tuple[int, int]]:
        """(first token, last token) of the first gold answer per window; (0, 0) if it is not whole in it."""
        text, start = placed(label)
        return [tokens or (0, 0) for tokens in token_places(example, start, start + len(text))]

    def check(self, value: Any, size: int) -> None:
        """Accept one pair of tokens per row."""
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
        """The mean over an example's windows of (CE(start) + CE(end)) / 2, [E]; padding is masked."""
        import torch
        from torch.nn import functional as F

        scores = logits.float()  # [R, L, 2]
        if layout.mask is not None:
            scores = scores.masked_fill(~layout.mask[:, :, None], torch.finfo(scores.dtype).min)
        positions = labels.clamp(0, scores.size(1) - 1)
        losses = [F.cross_entropy(scores[:, :, k], positions[:, k], reduction="none") for k in (0, 1)]
        return layout.mean((losses[0] + losses[1]) / 2)

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor:
        """The mean over windows of (uncertainty of the start + uncertainty of the end) / 2, [E].

        Each is computed over the C tokens of its row, the classes of the loss. They include the first token,
        which stands for a window without the answer.
        """
        from weft.tasks.kinds.uncertainty import of_classes

        keep = None if layout.mask is None else layout.mask[:, None, :]
        uncertainties = of_classes(logits.transpose(1, 2), measure, keep)  # [R, 2]
        return layout.mean(uncertainties.mean(1))

    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[str]:
        """The texts of the answers."""
        answers = []
        for x, example in zip(logits, examples, strict=True):
            best = best_span(x, example)
            answers.append(example.texts[1][best.start : best.end].strip())
        return answers

    def gold(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[list[str]]:
        """The texts of all gold answers, or of those with start NOWHERE, if there are any."""
        gold = []
        for label in labels:
            for_evaluation = [text for text, start in label if start == NOWHERE]
            gold.append(for_evaluation or [text for text, _ in label])
        return gold

    def probability(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> NDArray[np.float64]:
        """The softmax of start + end logit over all spans of all windows, at the best span, [N].

        It is 0 where a context has no token.
        """
        import numpy as np

        chances = np.zeros(len(examples))
        for number, (x, example) in enumerate(zip(logits, examples, strict=True)):
            scores = [window.scores[np.isfinite(window.scores)] for window in _windows(x, example)]
            if scores:
                every = np.concatenate(scores).astype(np.float64)
                chances[number] = 1 / np.exp(every - every.max()).sum()
        return chances

    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> list[str]:
        """No answer: without reading the context there is nothing to predict."""
        return [""] * len(examples)

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """The mean number of gold answers per example, and their mean length in characters."""
        texts = [text for label in labels for text, _ in label]
        return {
            "answers an example": len(texts) / len(labels),
            "characters an answer": sum(map(len, texts)) / len(texts),
        }

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Answers that no window contains whole, and answers longer than any prediction."""
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
                f"{len(lost)} answers are not whole in any window and cannot be learned; raise "
                "train.max_length or the task's stride"
            )
            yield Oddity(message, column, len(lost), lost[0])
        if long:
            message = f"{len(long)} answers have more than {LONGEST} tokens, the limit of predicted answers"
            yield Oddity(message, column, len(long), long[0], "note")

    def example_answer(self, task: Task) -> dict[str, Any]:
        """A text, its place and a number."""
        return {"answer": "", "start": 0, "end": 0, "score": 0.0}

    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """The answer, its position in the context, and its score."""
        best = best_span(logits, example)
        text = example.texts[1][best.start : best.end]
        # some tokenizers include the space before a word in its token
        start = best.start + len(text) - len(text.lstrip())
        text = text.strip()
        return {"answer": text, "start": start, "end": start + len(text), "score": best.score}


def placed(label: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return the first gold answer that has a position in the context."""
    return next((text, start) for text, start in label if start != NOWHERE)


def token_places(example: ExampleRows, start: int, end: int) -> list[tuple[int, int] | None]:
    """Return the first and the last token of characters start … end − 1 per row; None if not whole in it."""
    import numpy as np

    places: list[tuple[int, int] | None] = []
    last = example.count - 1
    rows = zip(example.channel("starts"), example.channel("ends"), strict=True)
    for number, (starts, ends) in enumerate(rows):
        inside = np.flatnonzero(starts >= 0)
        # the window must contain the first and the last character. Before the first window and after the last
        # one there can only be characters that the tokenizer drops
        if (
            not len(inside)
            or (number > 0 and starts[inside[0]] > start)
            or (number < last and ends[inside[-1]] < end)
        ):
            places.append(None)
            continue
        touched = inside[(ends[inside] > start) & (starts[inside] < end)]
        places.append((int(touched[0]), int(touched[-1])) if len(touched) else None)
    return places


class _Window(NamedTuple):
    """The spans of one row.

    Attributes:
        starts, ends: the first character and the last character + 1 of the row's n context tokens, [n].
        scores: the start logit + the end logit of each (first, last) token, −∞ for pairs that no answer may
            have, [n, n].
    """

    starts: NDArray[Any]
    ends: NDArray[Any]
    scores: NDArray[Any]


def _windows(logits: NDArray[np.float32], example: ExampleRows) -> Iterator[_Window]:
    """Yield the spans of each row that has tokens of the context; logits [tokens of all rows, 2]."""
    import numpy as np

    first = 0
    for starts, ends in zip(example.channel("starts"), example.channel("ends"), strict=True):
        row_logits = logits[first : first + len(starts)]
        first += len(starts)
        inside = np.flatnonzero(starts >= 0)
        if not len(inside):
            continue
        begin, stop = row_logits[inside, 0], row_logits[inside, 1]
        scores = np.where(_allowed(len(inside)), begin[:, None] + stop[None, :], -np.inf)
        yield _Window(starts[inside], ends[inside], scores)


def best_span(logits: NDArray[np.float32], example: ExampleRows) -> ContextSpan:
    """Return the best span of the context over all windows; logits [tokens of all rows, 2]."""
    import numpy as np

    best = ContextSpan(0, 0, -np.inf)
    for starts, ends, scores in _windows(logits, example):
        i, j = divmod(int(scores.argmax()), len(starts))
        if scores[i, j] > best.score:
            best = ContextSpan(int(starts[i]), int(ends[j]), float(scores[i, j]))
    if not np.isfinite(best.score):
        return ContextSpan(0, 0, 0.0)
    return best._replace(end=_with_accents(example.texts[1], best.end))


def _with_accents(text: str, end: int) -> int:
    """Return the end of a span, moved behind combining accents that some tokenizers leave out."""
    while end < len(text) and category(text[end]).startswith("M"):
        end += 1
    return end


def _allowed(size: int) -> NDArray[Any]:
    """Which pairs (first, last) are in order and at most LONGEST tokens long, [n, n]."""
    import numpy as np

    distance = np.arange(size)[None, :] - np.arange(size)[:, None]
    return (distance >= 0) & (distance < LONGEST)
