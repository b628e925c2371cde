"""Kind: the base class of all kinds of task. Importing it does not import torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from weft.metrics import METRICS
from weft.tasks.kinds.inputs import BadValue as BadValue
from weft.tasks.kinds.inputs import ColumnValues as ColumnValues
from weft.tasks.kinds.inputs import Inputs as Inputs
from weft.tasks.kinds.inputs import Oddity as Oddity
from weft.tasks.values import wrong_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from weft.core.layout import Layout
    from weft.data.readers.example import ExampleRows
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.kinds.collate import Places
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task


class Kind(ABC):
    """One kind of task: its features, head, loss, decoding and metrics.

    Attributes:
        name: the name it is registered under.
        has_range: whether its labels are numbers, which may have a range.
        has_classes: whether every example has exactly one of a few labels.
        bag_of_words: the linear model on words that is its baseline beside `guess`: `logistic`, `ridge`,
            `logistic per label`, or None where a bag of words makes no sense.
        has_uncertainty: whether `uncertainty` can be computed from its logits.
        squared: whether its loss is a squared error and not a log-likelihood; learned task weights treat the
            two differently.
        answer_types: what `decode` and `gold` return, keys of `weft.metrics.ANSWER_TYPES`. Every metric that
            compares one of them can judge the task; the default metrics are those of the first.
        options: the settings of a task that this kind accepts and most others do not.
        texts: the minimal and the maximal number of text columns.
        reads: what its head reads: `pooled` [R, d], `tokens` [R, L, d], or `marked` [R, 3d].
        answers_by: what one logit vector belongs to: `example` [C], `row` (one per row of the example), or
            `token` [L, C].
        targets_by: what one target belongs to: `example`, `row` or `token`.
        target_type: the numpy type of its targets in a batch.
        kept_type: a smaller type that can hold the targets of a whole split; None: `target_type`.
        stand_in: the target of examples of other kinds in a batch: any valid value.
        windows: which long texts become several rows: `context` (the second text), `words`, or None.
        empty_label: whether an empty cell of a text file is a valid label, meaning "no label holds".
        probe: the regression that its head of one layer can be fitted by before training: `classes`, `flags`
            or `numbers` (see `weft.training.head_start.fit`); None: its head is no linear map to targets.
        pipeline_tag: what the Hugging Face hub calls such a task; None: it has no word for it.
        channels: what is stored per token beside its id: `starts` and `ends`, its characters in the
            context; `words`, the index of the word it begins; `marks`, the marks that contain it.
    """

    name: ClassVar[str]
    has_range: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    bag_of_words: ClassVar[str | None] = None
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
    probe: ClassVar[str | None] = None
    pipeline_tag: ClassVar[str | None] = None
    channels: ClassVar[tuple[str, ...]] = ()

    # what a task is

    @abstractmethod
    def size(self, task: str, labels: Sequence[str], size: int | None) -> int:
        """Return the number of outputs of a task's head, or raise an error that names the task."""

    def answer_types_of(self, task: Task) -> tuple[str, ...]:
        """The answer types of the kind that this task's labels allow."""
        return self.answer_types

    def label_names(self, labels: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The names of the labels, if the kind has labels."""
        return labels

    def found_labels(self, columns: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
        """Return the label names of a task that names none, from the cells of its label columns.

        Raises:
            ValueError: if the cells cannot be labels; the message says what to do.
        """
        return ()

    def complete(self, task: Task) -> None:
        """Fill in the options that the task leaves open; refuse options that contradict each other."""
        return

    def of(self, task: Task) -> Kind:
        """Return the variant of the kind for this task, if an option of the task selects the loss."""
        return self

    def reads_of(self, task: Task) -> str:
        """What the task's head reads: `reads`, or `pair` [R, 2d] if its texts are encoded separately."""
        return "pair" if task.apart else self.reads

    # from a file's values to an example

    def inputs(self, task: Task, values: ColumnValues) -> tuple[Inputs, list[BadValue]]:
        """Return the encoder's input for an example, and the values that cannot be used."""
        wrong = [
            BadValue(column, text, message)
            for column, text in zip(task.texts, values.texts, strict=True)
            if (message := wrong_text(text))
        ]
        return Inputs(values.texts), wrong  # type: ignore[arg-type]

    @abstractmethod
    def parse(self, values: Sequence[object], labels: Sequence[str]) -> object:
        """Parse a label from the values of its columns in a file.

        Args:
            values: a single value, or one per output.
            labels: the task's label names.

        Raises:
            ValueError: if it is invalid; the message can follow the words "found …; expected".
        """

    def fits(self, label: Any, task: Task, inputs: Inputs) -> None:
        """Raise a ValueError that states what was expected if this example cannot have the label."""
        self.check(label, task.size or 0)

    # from an example to rows and targets

    def rows(self, task: Task, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the texts of the example's rows, one or two per row."""
        return [(text,) for text in texts] if task.apart else [texts]

    def target(self, label: Any, task: Task, example: ExampleRows) -> Any:
        """Return the training target of a label, once the example's rows are known."""
        return label

    @abstractmethod
    def check(self, value: Any, size: int) -> None:
        """Raise a ValueError that states what was expected if a task of this size cannot have the target."""

    def target_shape(self, size: int) -> tuple[int, ...]:
        """The shape of the target of one example, row or token, for tasks of at most this size."""
        return ()

    def least_size(self, value: Any) -> int:
        """The smallest size of a task that can have this target."""
        return 1

    def as_array(self, value: Any, size: int) -> NDArray[Any]:
        """Return a target as an array, for a batch of tasks of at most this size.

        By example [*shape], by row [rows, *shape], by token [tokens of all its rows].
        """
        import numpy as np

        return np.asarray(value, self.target_type)

    def table(self, labels: Sequence[Any], task: Task) -> NDArray[Any] | None:
        """Return the targets of a whole split in the form of a batch, one per example [n, …].

        None if they must be computed one by one: for kinds whose targets depend on an example's rows, or if a
        label is invalid and the error has to name it.
        """
        return None

    def collate(self, values: Sequence[Any], of_kind: Sequence[bool], places: Places) -> Tensor:
        """Collate the targets of a batch: [E, …], [R, …] or [R, L], depending on `targets_by`.

        Args:
            values: the targets of the batch's E examples.
            of_kind: whether each example is of this kind; other examples get the stand-in.
            places: which example each row belongs to, and the sizes.
        """
        from weft.tasks.kinds.collate import collate

        return collate(self, values, of_kind, places)

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """The loss of each example, [E].

        Args:
            logits: [E, C], [R, C] or [R, L, C], depending on `answers_by`.
            labels: the output of `collate`.
            layout: which example each row belongs to.

        It must be finite for examples of other kinds and sizes too: they have weight 0.
        """

    def uncertainty(
        self, logits: Tensor, layout: Layout, measure: str, labels: Tensor | None = None
    ) -> Tensor | None:
        """The model's uncertainty about each example, from 0, [E]; None if the kind defines none.

        Args:
            logits: [E, C], [R, C] or [R, L, C], depending on `answers_by`.
            layout: which example each row belongs to.
            measure: `entropy`, H(p) / (ln C + 1e-5), `margin`, 1 − (p₍₁₎ − p₍₂₎), or `raw_entropy`, H(p);
                see `weft.tasks.kinds.uncertainty`.
            labels: the output of `collate`. A kind may read where there are labels, never their values.

        The values of examples of other kinds are not used.
        """
        return None

    # from logits to answers

    @abstractmethod
    def decode(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> Any:
        """Decode each example's logits into answers, in the form of the kind's answer types."""

    def gold(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> Any:
        """Return the labels of the same examples in the form that metrics compare."""
        return labels

    def decisions(
        self,
        logits: Sequence[NDArray[np.float32]],
        labels: Sequence[Any],
        task: Task,
        examples: Sequence[ExampleRows],
    ) -> Decisions | None:
        """Return the choices among labels, tags or candidates that the model makes in its answers.

        Calibration and error reports read them. None if the outputs are no probabilities of such choices.
        """
        return None

    def probability(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> NDArray[np.float64] | None:
        """Return the probability of each example's answer, [N], if it is not that of its `decisions`."""
        return None

    @abstractmethod
    def guess(self, labels: Sequence[Any], task: Task, examples: Sequence[ExampleRows]) -> Any:
        """Return the answers of a baseline that knows the training labels and does not read the texts."""

    def label_facts(self, labels: Sequence[Any], task: Task) -> dict[str, float]:
        """Statistics of a split's labels: one count per label, or minimum, mean and maximum."""
        return {}

    def label_flags(self, labels: Sequence[Any], task: Task) -> NDArray[np.bool_] | None:
        """Which labels each example has, [n, C]; None for kinds whose labels are not a fixed set per example.

        `weft check` compares the splits by it.
        """
        return None

    def oddities(self, tokens: Tokens) -> Iterator[Oddity]:
        """Yield what training accepts in a split but a user should know."""
        yield from ()

    @abstractmethod
    def answer(self, logits: NDArray[np.float32], task: Task, example: ExampleRows) -> dict[str, Any]:
        """Return the answer to one example for a user: JSON-serializable."""

    def example_answer(self, task: Task) -> dict[str, Any] | None:
        """Return an invented answer, with all fields of `answer` and values of their types.

        Tables of predictions have the columns that it has, with their types, whatever the rows are. None: the
        columns are those of the answers that come.
        """
        return None

    def answers(
        self, logits: Sequence[NDArray[np.float32]], task: Task, examples: Sequence[ExampleRows]
    ) -> list[dict[str, Any]]:
        """Return the answers to several examples; kinds with simple answers compute them together."""
        return [self.answer(x, task, example) for x, example in zip(logits, examples, strict=True)]

    def compared(self, answer_type: str, gold: Any, predictions: Any) -> tuple[Any, Any]:
        """Return what a metric of this answer type compares: (gold, predictions).

        A kind with several answer types may return a different view for each.

        Args:
            answer_type: one of the kind's answer types.
            gold: the output of `gold`.
            predictions: the output of `decode`.
        """
        return gold, predictions

    def compared_by(self, metric: str, gold: Any, predictions: Any) -> tuple[Any, Any]:
        """Return what a metric compares, given by its name: (gold, predictions); see `compared`."""
        answer_type = next(known for known in self.answer_types if known in METRICS[metric].compares)
        return self.compared(answer_type, gold, predictions)

    def score(
        self, names: Sequence[str], gold: Any, predictions: Any, groups: Sequence[Any] | None
    ) -> dict[str, float]:
        """Compute the named metrics over all answers."""
        return {name: METRICS[name](*self.compared_by(name, gold, predictions), groups) for name in names}
