"""What every kind of task answers for. No torch is imported to say what a task is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from weft.tasks.values import wrong_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.kinds.collate import Places
    from weft.tasks.task import Task


class Given(NamedTuple):
    """The values of one example's columns, as a file has them.

    Attributes:
        texts: one for each of the task's texts.
        choices: one for each of its `choices` columns.
        marks: the two values of each of its marks.
    """

    texts: tuple[object, ...]
    choices: tuple[object, ...] = ()
    marks: tuple[tuple[object, object], ...] = ()


class Wrong(NamedTuple):
    """A value that cannot be used: its column, itself, and what is wrong with it."""

    column: str
    value: object
    message: str


class Inputs(NamedTuple):
    """What the encoder reads of one example.

    Attributes:
        texts: its texts; what they are is the kind's to say.
        marks: (text, first character, the one after the last) of each mark.
    """

    texts: tuple[str, ...]
    marks: tuple[tuple[int, int, int], ...] = ()


class Oddity(NamedTuple):
    """Something odd about a split: what it is, and the example it is first seen in, if it is of examples."""

    message: str
    column: str | None = None
    value: object = None
    first: int | None = None
    severity: str = "warning"


class Kind(ABC):
    """One kind of task: its features, head, loss, decoding and metrics.

    Attributes:
        name: the name it is registered under.
        has_range: whether its labels are numbers, which may have a range.
        has_classes: whether every example has one label of a few.
        has_uncertainty: whether `uncertainty` can be found of its logits.
        squared: whether its loss is a squared error, no log-likelihood: learned weights tell them apart.
        answer_types: what `decode` and `gold` give, some of `weft.metrics.ANSWER_TYPES`: a task may be judged
            by every metric that compares one of them, by default by those of the first.
        options: the settings of a task that this kind takes and most others do not.
        texts: the least and the most text columns.
        reads: what its head reads: `pooled` [R, d], `tokens` [R, L, d], or `marked` [R, 3d].
        answers_by: what a logit belongs to: `example` [C], `row` (a list of its rows'), or `token` [L, C].
        targets_by: what a target belongs to: `example`, `row` or `token`.
        target_type: the numpy type of its targets in a batch.
        kept_type: a smaller one that holds them too, for those of a whole split; None: the same.
        stand_in: the target of an example of another kind: any valid one.
        windows: None, or whether long texts become several rows: `context` (the second text) or `words`.
        empty_label: whether an empty cell of a text file is a label: that none holds.
        channels: what is kept of each token beside its id: `starts` and `ends`, its characters in the
            context; `words`, the number of the word it begins; `marks`, the marks it lies in.
    """

    name: ClassVar[str]
    has_range: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    has_uncertainty: ClassVar[bool] = False
    squared: ClassVar[bool] = False
    answer_types: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar[tuple[int, int]] = (1, 2)
    reads: ClassVar[str] = "pooled"
    answers_by: ClassVar[str] = "example"
    targets_by: ClassVar[str] = "example"
    target_type: ClassVar[str] = "float32"
    kept_type: ClassVar[str | None] = None
    stand_in: ClassVar[float] = 0
    windows: ClassVar[str | None] = None
    empty_label: ClassVar[bool] = False
    channels: ClassVar[tuple[str, ...]] = ()

    # what a task is

    @abstractmethod
    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """The number of outputs of a task's head, or an error that names the task."""

    def answer_types_of(self, task: Task) -> tuple[str, ...]:
        """Those of its answer types that this task's labels allow."""
        return self.answer_types

    def label_names(self, labels: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The names of the labels, where the kind has any."""
        return labels

    def complete(self, task: Task) -> None:
        """Fill in the options that the task leaves open; refuse what does not fit together."""
        return

    def of(self, task: Task) -> Kind:
        """The kind as this task has it, where an option decides on the loss."""
        return self

    def reads_of(self, task: Task) -> str:
        """What the task's head reads: `reads`, or `pair` [R, 2d] where its texts are encoded apart."""
        return "pair" if task.apart else self.reads

    # from a file's values to an example

    def inputs(self, task: Task, given: Given) -> tuple[Inputs, list[Wrong]]:
        """What the encoder reads of an example, and what is wrong with its columns."""
        wrong = [
            Wrong(column, text, message)
            for column, text in zip(task.texts, given.texts, strict=True)
            if (message := wrong_text(text))
        ]
        return Inputs(given.texts), wrong  # type: ignore[arg-type]

    @abstractmethod
    def parse(self, values: Sequence[object], labels: Sequence[str]) -> object:
        """A label from the values of its columns in a file.

        Args:
            values: one value, or one for each output.
            labels: the task's label names.

        Raises:
            ValueError: with what was expected, as words that may follow "found …; expected".
        """

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Refuse a label that this example cannot have, by a ValueError with what was expected."""
        self.check(label, task.size or 0)

    # from an example to rows and targets

    def rows(self, task: Task, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The texts of each of the example's rows, one or two a row."""
        return [(text,) for text in texts] if task.apart else [texts]

    def target(self, label: Any, task: Task, example: ExampleRows) -> Any:
        """What is learnt of a label, once the example's rows are known."""
        return label

    @abstractmethod
    def check(self, value: Any, size: int) -> None:
        """Refuse a target that a task of this size cannot have, by a ValueError with what was expected."""

    def target_shape(self, size: int) -> tuple[int, ...]:
        """The shape of one example's, row's or token's target, for tasks of this size or less."""
        return ()

    def least_size(self, value: Any) -> int:
        """The least size of a task that may have this target."""
        return 1

    def as_array(self, value: Any, size: int) -> NDArray[Any]:
        """A target in numbers, as a batch of tasks of this size or less has it.

        Of one example [*shape], by row [rows, *shape], by token those of all its rows one after another.
        """
        import numpy as np

        return np.asarray(value, self.target_type)

    def table(self, labels: Sequence[Any], task: Task) -> NDArray[Any] | None:
        """The targets of a whole split as a batch has them, by example [n, …].

        None where they have to be found one by one: of kinds whose targets need an example's rows, or where
        a label is wrong and an error is to say which.
        """
        return None

    def collate(self, values: Sequence[Any], mine: Sequence[bool], places: Places) -> Tensor:
        """The targets of a batch: by example [E, …], by row [R, …] or by token [R, L], as `targets_by` says.

        An example of another kind gets the stand-in.
        """
        from weft.tasks.kinds.collate import collate

        return collate(self, values, mine, places)

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The loss of each example, [E].

        Args:
            logits: [E, C], [R, C] or [R, L, C], as `answers_by` says.
            labels: of `collate`.
            layout: which example each row is of.

        It must be finite for an example of another kind or size too: such a one has weight 0.
        """

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor | None:
        """How unsure the model is of each example, from 0 to 1, [E]; None of a kind that cannot tell.

        Args:
            logits: [E, C], [R, C] or [R, L, C], as `answers_by` says.
            layout: which example each row is of.
            measure: `entropy`, H(p) / (ln C + 1e-5), or `margin`, 1 − (p₍₁₎ − p₍₂₎); see
                `weft.tasks.kinds.uncertainty`.
            labels: of `collate`. A kind may read where there are labels, never what they are.

        An example of another kind may have any number.
        """
        return None

    # from logits to answers

    @abstractmethod
    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> Any:
        """The answers of one task's examples, as its metrics want them, from each one's logits."""

    def gold(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> Any:
        """The labels of the same examples, as the metrics want them."""
        return labels

    @abstractmethod
    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> Any:
        """What `decode` would give of a model that knows the training labels and reads nothing."""

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """What a split's labels are, counted: of each label, or the least, the mean and the largest."""
        return {}

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """What training would accept of a split and a user should know."""
        yield from ()

    @abstractmethod
    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """One example's answer for a user: JSON-able."""

    def answers(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[dict[str, Any]]:
        """The answers to several examples; a kind whose answers are simple computes them together."""
        return [self.answer(own, task, example) for own, example in zip(logits, examples, strict=True)]

    def compared(self, answer_type: str, gold: Any, found: Any) -> tuple[Any, Any]:
        """What a metric of this answer type compares; of a kind with several, each may be another view.

        Args:
            answer_type: one of its own.
            gold: what `gold` gave.
            found: what `decode` gave.
        """
        return gold, found

    def score(
        self, names: Sequence[str], gold: Any, found: Any, groups: Sequence[Any] | None
    ) -> dict[str, float]:
        """The metrics of these names, over all answers."""
        from weft.metrics import METRICS

        scores = {}
        for name in names:
            metric = METRICS[name]
            answer_type = next(own for own in self.answer_types if own in metric.compares)
            scores[name] = metric(*self.compared(answer_type, gold, found), groups)
        return scores


def shares(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """softmax(logits) over the last dimension in float64, [..., n]."""
    import numpy as np

    shifted = np.exp((logits - logits.max(-1, keepdims=True)).astype(np.float64))
    return shifted / shifted.sum(-1, keepdims=True)
