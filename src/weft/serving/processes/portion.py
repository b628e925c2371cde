"""A portion: the questions of some requests, tokenized, on their way to the model's process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.data.tokens.tokens import Tokens
from weft.inference.slab import as_split, tokenize_inputs
from weft.serving.batching.ticket import Item, Ticket
from weft.serving.questions.question import Embed, Many, One
from weft.tasks.kinds.kind import Inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from weft.serving.tasks.served_tasks import ServedTasks
    from weft.tasks.task import Task


@dataclass(frozen=True)
class Reader:
    """What tokenizing needs of a model; see `weft.inference.slab.tokenize_inputs`.

    Attributes:
        tasks: the task in each slot, [T].
        tokenizer: the tokenizer.
        max_length: the most tokens of a row.
    """

    tasks: Sequence[Task]
    tokenizer: PreTrainedTokenizerBase
    max_length: int


class Tokenized(NamedTuple):
    """Questions that were tokenized together.

    Attributes:
        slot: the slot of one of their tasks; tokens do not depend on which.
        version: the version of the task in this slot.
        inputs: the input of each question.
        arrays: their tokens.
    """

    slot: int
    version: int
    inputs: list[tuple[Any, ...]]
    arrays: dict[str, NDArray[Any]]


class Portion(NamedTuple):
    """Some requests.

    Attributes:
        tickets: the number of each request, the seconds that it may take, and how many questions it has.
        questions: those of all requests: for `One` a tuple of its fields and of where its tokens are (the
            number in `tokenized` and the example there, or -1); else the question itself.
        tokenized: the tokens.
    """

    tickets: list[tuple[int, float, int]]
    questions: list[Any]
    tokenized: list[Tokenized]


def packed(tickets: Sequence[Ticket], served: ServedTasks, reader: Reader) -> Portion:
    """Tokenize the questions of some requests and pack them.

    Questions that were read for a task which has been replaced since are not tokenized here, nor are all
    those of a portion in which one cannot be tokenized: the model's process does it, one by one.

    Args:
        tickets: the requests.
        served: the tasks; `reader` has the same.
        reader: the tokenizer.
    """
    now = time.monotonic()
    heads = [(ticket.number, ticket.deadline - now, len(ticket.questions)) for ticket in tickets]
    questions: list[Any] = [question for ticket in tickets for question in ticket.questions]
    current = [
        place
        for place, question in enumerate(questions)
        if type(question) is One and question.version == served.version_of(question)
    ]
    where: dict[int, tuple[int, int]] = {}
    tokenized: list[Tokenized] = []
    try:
        slab = tokenize_inputs(reader, [(questions[p].task, questions[p].inputs) for p in current])  # type: ignore[arg-type]
    except Exception:
        current = []
    else:
        numbers: dict[int, int] = {}
        columns = slab.examples.task.tolist(), slab.examples.index.tolist()
        for place, task, example in zip(current, *columns, strict=True):
            tokens = slab.tokens[task]
            number = numbers.get(id(tokens))
            if number is None:
                number = numbers[id(tokens)] = len(tokenized)
                tokenized.append(Tokenized(task, served.versions[task], [], tokens.arrays))
            question = questions[place]
            tokenized[number].inputs.append((question.inputs.texts, question.inputs.marks))
            where[place] = number, example
    return Portion(heads, [_flat(q, *where.get(p, (-1, 0))) for p, q in enumerate(questions)], tokenized)


def _flat(question: One | Many | Embed, number: int, example: int) -> Any:
    """A question as a tuple, which is pickled faster than an object; see `_unflat`."""
    if type(question) is not One:
        return question
    inputs = None if number >= 0 else question.inputs
    where, value, identity = question.where, question.value, question.id
    return number, example, inputs, where, value, question.task, question.version, identity


def unpacked(
    portion: Portion, served: ServedTasks, ticket_of: Callable[[int, list[Any], float], Ticket]
) -> list[tuple[Ticket, list[Item]]]:
    """The requests of a portion, and the items of each for the queue.

    Args:
        portion: the portion.
        served: the tasks that the model's process serves now.
        ticket_of: makes a ticket of the number of a request, its questions and its seconds.
    """
    read = [[Inputs(*inputs) for inputs in each.inputs] for each in portion.tokenized]
    tokens = [_tokens(each, inputs, served) for each, inputs in zip(portion.tokenized, read, strict=True)]
    requests = []
    first = 0
    for number, seconds, count in portion.tickets:
        flat = portion.questions[first : first + count]
        ticket = ticket_of(number, [_unflat(each, read) for each in flat], seconds)
        items = [Item(ticket, position, question) for position, question in enumerate(ticket.questions)]
        for item, each in zip(items, flat, strict=True):
            if type(each) is tuple and each[0] >= 0:
                item.tokens, item.example = tokens[each[0]], each[1]
        requests.append((ticket, items))
        first += count
    return requests


def _unflat(flat: Any, read: list[list[Inputs]]) -> One | Many | Embed:
    if type(flat) is not tuple:
        question: Many | Embed = flat
        return question
    number, example, inputs, where, value, task, version, identity = flat
    return One(where, value, task, inputs if number < 0 else read[number][example], version, identity)


def _tokens(tokenized: Tokenized, inputs: list[Inputs], served: ServedTasks) -> Tokens | None:
    """The tokens; None if the task that they were made for was replaced meanwhile."""
    if tokenized.slot >= len(served.versions) or served.versions[tokenized.slot] != tokenized.version:
        return None
    return Tokens("", tokenized.arrays, as_split(served.tasks[tokenized.slot], inputs))
