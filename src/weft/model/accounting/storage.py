"""What a model's tasks take to store, as multitask LoRA counts it (its Table 3).

*Incremental*: the encoder is on the device already; what must be stored beside it is what the method adds,
the heads, and what of the encoder was trained. *Bundled*: an application that stands alone, the encoder with
it. A trained encoder is there in the place of the base, not beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from weft.core.basis import basis_for
from weft.core.stacked import StackedModule
from weft.model.ownership import owned

if TYPE_CHECKING:
    from weft.model.model import Model


class Amount(TypedDict):
    """A number of parameters, and the bytes that they take as they are in the model."""

    parameters: int
    bytes: int


class TaskStorage(TypedDict):
    """What is one task's own.

    Attributes:
        own: what the method adds for it; for `separate`, what of its encoder trains.
        head: its head.
        total: both.
    """

    own: Amount
    head: Amount
    total: Amount


class Scenarios(TypedDict):
    """The two scenarios."""

    incremental: Amount
    bundled: Amount


class PaperStorage(Scenarios):
    """The scenarios with a round number for the encoder, and all else as it is.

    Attributes:
        basis: the round number.
    """

    basis: int


class Storage(TypedDict):
    """What a model takes to store.

    Attributes:
        encoder: one encoder.
        trained_encoder: what of the encoder trains for all tasks together; it is stored anew.
        shared: what the method adds for all tasks, or for groups of them.
        tasks: what is each task's own.
        incremental: trained_encoder + shared + every task's total.
        bundled: the encoder, and what is stored beside it; one trained copy takes the base's place.
        one_more_task: what one more task would add in either scenario, its head the largest that is here.
        paper: the scenarios as the paper counts; None where the encoder is no BERT-base.
    """

    encoder: Amount
    trained_encoder: Amount
    shared: Amount
    tasks: dict[str, TaskStorage]
    incremental: Amount
    bundled: Amount
    one_more_task: TaskStorage
    paper: PaperStorage | None


def storage(model: Model, basis: int | None = None) -> Storage:
    """Count what a model takes to store; tensors on the meta device count as well.

    Args:
        model: any model.
        basis: a round number for the encoder, in the paper's arithmetic.
    """
    names = [task.name for task in model.tasks]
    own, heads = {name: _none() for name in names}, {name: _none() for name in names}
    held, trained, shared = _none(), _none(), _none()
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        amount = _of(item.numel, item.parameter.element_size())
        if item.part == "heads":
            heads[name] = _sum(heads[name], amount)
        elif item.part == "encoder":
            held = _sum(held, amount)
            if item.trains and kind == "task":
                own[name] = _sum(own[name], amount)
            elif item.trains:
                trained = _sum(trained, amount)
        elif kind == "task":
            own[name] = _sum(own[name], amount)
        else:
            shared = _sum(shared, amount)
    separate = model.method.separate
    encoder = (
        _of(held["parameters"] // len(names), held["bytes"] // max(held["parameters"], 1))
        if separate
        else held
    )
    tasks = {name: _task(own[name], heads[name]) for name in names}
    added = _sum(shared, *(task["total"] for task in tasks.values()))
    copy = own[names[0]] if separate else _none()  # of the tasks' trained copies one takes the base's place
    more = _task(
        copy if separate else _own_slots(model), max(heads.values(), key=lambda head: head["parameters"])
    )
    return Storage(
        encoder=encoder,
        trained_encoder=trained,
        shared=shared,
        tasks=tasks,
        incremental=_sum(trained, added),
        bundled=_minus(_sum(encoder, added), copy),
        one_more_task=more,
        paper=_paper(model, basis_for(encoder["parameters"], basis), encoder, trained, added, copy),
    )


def _paper(
    model: Model, basis: int | None, encoder: Amount, trained: Amount, added: Amount, copy: Amount
) -> PaperStorage | None:
    """The same sums with a round number for every whole encoder.

    An encoder that trains as a whole is the round number; a part of it that trains (its biases, some layers)
    is what it is, and so is all that the method adds.
    """
    if basis is None:
        return None
    width = encoder["bytes"] // encoder["parameters"]
    whole = any(part.train_encoder == "all" for part in model.method.parts)
    round_one = _of(basis, width)
    if whole and model.method.separate:
        bodies = [round_one] * len(model.tasks)
        others = _minus(added, *([copy] * len(model.tasks)))
        incremental = bundled = _sum(others, *bodies)
    else:
        incremental = _sum(round_one if whole else trained, added)
        bundled = _minus(_sum(round_one, added), copy)
    return PaperStorage(basis=basis, incremental=incremental, bundled=bundled)


def _own_slots(model: Model) -> Amount:
    """What one more task would own: an entry of every parameter that not all tasks share."""
    total = _none()
    for module in model.adapters.modules():
        if isinstance(module, StackedModule):
            for name, stack in module.stacks.items():
                if not stack.slots.is_shared:
                    parameter = module.get_parameter(name)
                    total = _sum(total, _of(parameter[0].numel(), parameter.element_size()))
    return total


def _none() -> Amount:
    return Amount(parameters=0, bytes=0)


def _of(parameters: int, width: int) -> Amount:
    """So many parameters of so many bytes each."""
    return Amount(parameters=parameters, bytes=parameters * width)


def _task(own: Amount, head: Amount) -> TaskStorage:
    return TaskStorage(own=own, head=head, total=_sum(own, head))


def _sum(*amounts: Amount) -> Amount:
    return Amount(
        parameters=sum(amount["parameters"] for amount in amounts),
        bytes=sum(amount["bytes"] for amount in amounts),
    )


def _minus(whole: Amount, *parts: Amount) -> Amount:
    part = _sum(*parts)
    return Amount(parameters=whole["parameters"] - part["parameters"], bytes=whole["bytes"] - part["bytes"])
