"""The storage that a model's tasks need, as multitask LoRA counts it (its Table 3).

*Incremental*: the encoder is already on the device; stored in addition are the method's parameters, the
heads, and the trained parameters of the encoder. *Bundled*: a standalone application that includes the
encoder. A trained encoder replaces the base instead of being stored in addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from weft.core.basis import basis_for
from weft.core.stacked import StackedModule
from weft.model.ownership import owned

if TYPE_CHECKING:
    from weft.model.model import Model


class Amount(TypedDict):
    """A number of parameters, and their bytes in the model's dtypes."""

    parameters: int
    bytes: int


class TaskStorage(TypedDict):
    """The storage of one task.

    Attributes:
        own: what the method adds for the task; for `separate`, the trained parameters of its encoder.
        head: its head.
        total: the sum of both.
    """

    own: Amount
    head: Amount
    total: Amount


class Scenarios(TypedDict):
    """The two scenarios."""

    incremental: Amount
    bundled: Amount


class PaperStorage(Scenarios):
    """The scenarios with a round number for the encoder, and real numbers for everything else.

    Attributes:
        basis: the round number.
        unused_heads: the heads that the paper keeps for tasks that it compares by the cosine and does not
            use; they are part of both scenarios. See `unused_heads`.
    """

    basis: int
    unused_heads: Amount


class Storage(TypedDict):
    """The storage of a model.

    Attributes:
        encoder: one encoder.
        trained_encoder: the encoder's parameters that train for all tasks together; they are stored again.
        shared: what the method adds for all tasks, or for groups of them.
        tasks: the storage of each task.
        incremental: trained_encoder + shared + every task's total.
        bundled: the encoder and what is stored in addition; one trained copy replaces the base.
        one_more_task: what one more task would add in either scenario, with the largest head of the model.
        paper: the scenarios as the paper counts; None if the encoder is not a BERT-base.
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
    """Count the storage of a model; tensors on the meta device count as well.

    Args:
        model: any model.
        basis: a round number for the encoder, in the paper's arithmetic.
    """
    names = [task.name for task in model.tasks]
    task_amounts, heads = {name: _none() for name in names}, {name: _none() for name in names}
    held, trained, shared = _none(), _none(), _none()
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        amount = _of(item.numel, item.parameter.element_size())
        if item.part == "heads":
            heads[name] = _sum(heads[name], amount)
        elif item.part == "encoder":
            held = _sum(held, amount)
            if item.trains and kind == "task":
                task_amounts[name] = _sum(task_amounts[name], amount)
            elif item.trains:
                trained = _sum(trained, amount)
        elif kind == "task":
            task_amounts[name] = _sum(task_amounts[name], amount)
        else:
            shared = _sum(shared, amount)
    separate = model.method.separate
    encoder = (
        _of(held["parameters"] // len(names), held["bytes"] // max(held["parameters"], 1))
        if separate
        else held
    )
    tasks = {name: _task(task_amounts[name], heads[name]) for name in names}
    added = _sum(shared, *(task["total"] for task in tasks.values()))
    copy = task_amounts[names[0]] if separate else _none()  # one of the trained copies replaces the base
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
        paper=_paper(
            model,
            basis_for(encoder["parameters"], basis),
            encoder,
            trained,
            added,
            copy,
            unused_heads(model),
        ),
    )


def _paper(
    model: Model,
    basis: int | None,
    encoder: Amount,
    trained: Amount,
    added: Amount,
    copy: Amount,
    unused: Amount,
) -> PaperStorage | None:
    """Return the same sums with a round number for every whole encoder.

    An encoder that trains entirely counts as the round number. If only a part trains (its biases, some
    layers), the real number is used, as for everything that the method adds.
    """
    if basis is None:
        return None
    added = _sum(added, unused)
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
    return PaperStorage(basis=basis, unused_heads=unused, incremental=incremental, bundled=bundled)


def unused_heads(model: Model) -> Amount:
    """Count the heads that multitask LoRA keeps and does not use, of tasks that are compared by the cosine.

    Here such a task has no head. In that report it has one like the other tasks of two separate texts: as
    many layers, as wide, and one output. A model without such other tasks has none.
    """
    heads: list[Any] = [model.heads[task.head] for task in model.tasks]
    sizes = [
        # the layers below the last one, and a last one with a single output
        sum(head.get_parameter(name)[0].numel() for name in head.stacks if name.startswith("hidden"))
        + head.get_parameter("weight").size(-1)
        + 1
        for head in heads
        if head.reads == "pair"
    ]
    cosines = sum(head.reads == "cosine" for head in heads)
    return _of(cosines * max(sizes, default=0), next(model.parameters()).element_size())


def _own_slots(model: Model) -> Amount:
    """Count what one more task would add: one slot of every parameter that not all tasks share."""
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
    """Return the amount of `parameters` parameters of `width` bytes each."""
    return Amount(parameters=parameters, bytes=parameters * width)


def _task(amount: Amount, head: Amount) -> TaskStorage:
    return TaskStorage(own=amount, head=head, total=_sum(amount, head))


def _sum(*amounts: Amount) -> Amount:
    return Amount(
        parameters=sum(amount["parameters"] for amount in amounts),
        bytes=sum(amount["bytes"] for amount in amounts),
    )


def _minus(whole: Amount, *parts: Amount) -> Amount:
    part = _sum(*parts)
    return Amount(parameters=whole["parameters"] - part["parameters"], bytes=whole["bytes"] - part["bytes"])
