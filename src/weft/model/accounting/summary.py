"""A model in a few lines: what `print(model)` and `print_trainable_parameters` show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model.model import Model

MOST = 6
"""How many tasks are listed before the rest are counted."""


def summary(model: Model) -> str:
    """Encoder, method, tasks and the number of parameters, one line each."""
    tasks = [f"{task.name} ({task.kind}, {task.size})" for task in model.tasks[:MOST]]
    tasks += [f"… {len(model.tasks) - MOST} more"] * (len(model.tasks) > MOST)
    method = "+".join(part.name for part in model.method.parts)
    trained, total = parameter_counts(model)
    return (
        f"Model({model.encoder_source.name!r}, method={method!r}, pool={model.pool!r}, "
        f"max_length={model.max_length})\n"
        f"  tasks: {', '.join(tasks)}\n"
        f"  parameters: {total:,}, of which {trained:,} train"
    )


def trainable_line(model: Model) -> str:
    """The line that PEFT prints: trainable and all parameters, heads and adapters included."""
    trained, total = parameter_counts(model)
    return (
        f"trainable params: {trained:,} || all params: {total:,} || trainable%: {100 * trained / total:.4f}"
    )


def parameter_counts(model: Model) -> tuple[int, int]:
    """How many parameters train, and how many there are."""
    counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(n for n, trains in counts if trains), sum(n for n, _ in counts)
