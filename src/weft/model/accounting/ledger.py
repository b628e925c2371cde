"""The ledger: how many parameters a model has, by owner, and how many of them train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from weft.methods.method import BERT_BASE
from weft.model.ownership import owned

if TYPE_CHECKING:
    from weft.model.model import Model


class Ledger(dict[str, Any]):
    """The counts of one model: a dictionary for programs, a table for readers.

    Example:
        >>> print(weft.Model("random:bert-base", tasks, "lora", device="meta").ledger())
                    parameters  of the encoder
        encoder    109,482,240         100.00%
        shared               0           0.00%
        task cola      294,912           0.27%
        task rte       294,912           0.27%
        total      110,072,064         100.54%  all tasks together
        trained        589,824           0.54%  0.27% per task
        heads            3,076           0.00%  not in the counts above
        paper: 1.0241 encoders in total, 0.2681% trained per task (...)

    A last line has the paper's count, if the method's paper has one.

    Keys:
        encoder: the parameters of one encoder.
        shared: parameters that the method adds for all tasks together, or for a group of tasks.
        per_task: parameters that it adds for each task; for `separate`, the task's whole encoder.
        heads: the parameters of each task's head.
        total: all parameters that serve all tasks, without heads.
        trained: how many of them train, without heads.
        total_ratio: total / encoder.
        trained_percent_per_task: (trained encoder + shared + per_task) / encoder / T · 100, without heads.
        paper: the ratios as the method's paper counts or prints them (`PaperCount`), or None.
    """

    def __str__(self) -> str:
        share = f"{self['trained_percent_per_task']:.2f}% per task"
        rows: list[tuple[str, int, str]] = [
            ("encoder", self["encoder"], ""),
            ("shared", self["shared"], ""),
            *((f"task {name}", count, "") for name, count in self["per_task"].items()),
            ("total", self["total"], "all tasks together"),
            ("trained", self["trained"], share),
            ("heads", sum(self["heads"].values()), "not in the counts above"),
        ]
        names = max(len(name) for name, _, _ in rows)
        counts = max(len("parameters"), *(len(f"{count:,}") for _, count, _ in rows))
        lines = [f"{'':{names}}  {'parameters':>{counts}}  of the encoder"]
        for name, count, remark in rows:
            percent = f"{100 * count / self['encoder']:.2f}%"
            lines.append(f"{name:{names}}  {count:>{counts},}  {percent:>14}  {remark}".rstrip())
        if (paper := self["paper"]) is not None:
            per_task = paper["trained_percent_per_task"]
            percent = "" if per_task is None else f", {per_task:.4f}% trained per task"
            lines.append(f"paper: {paper['total_ratio']:.4f} encoders in total{percent} ({paper['why']})")
        return "\n".join(lines)


class PaperCount(TypedDict):
    """A paper's own accounting: the ratios, what they divide by, for how many tasks, and why.

    A figure that the paper prints for exactly this model is reported as printed, even if it is wrong; `why`
    says so. What the paper does not report is None.
    """

    basis: int
    tasks: int
    total_ratio: float
    trained_percent_per_task: float | None
    why: str


def count(model: Model, basis: int | None = None) -> Ledger:
    """Count the model's tensors; those on the meta device count as well.

    Args:
        model: any model.
        basis: a round number for the encoder's size, as papers use it, for a second set of ratios.
    """
    names = [task.name for task in model.tasks]
    per_task = dict.fromkeys(names, 0)
    heads = dict.fromkeys(names, 0)
    held_encoder = shared = trained = trained_per_task = 0
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        if item.part == "heads":
            heads[name] += item.numel
            continue
        trained += item.numel * item.trains
        if kind == "task":
            per_task[name] += item.numel
            trained_per_task += item.numel * item.trains
        elif kind == "encoder":
            held_encoder += item.numel
        else:
            shared += item.numel
    # separate bodies share no encoder: the size of one of them is used
    encoder = held_encoder or sum(per_task.values()) // len(names)
    added = shared + sum(per_task.values())

    def ratios(divisor: int, more: int = 0, tasks: int = len(names)) -> tuple[float, float]:
        """The ratios for a number of tasks, of which each has the mean of the parameters per task."""
        further = tasks / len(names) - 1
        held = (divisor if held_encoder else 0) + added + further * sum(per_task.values()) + more
        return held / divisor, 100 * (trained + further * trained_per_task + more) / divisor / tasks

    total, percent = ratios(encoder)
    paper = None
    parts = model.method.parts
    requested = None if basis is None else (basis, f"with {basis:,} parameters for the encoder, as requested")
    for part in parts:
        # a paper's round number applies only to the encoder that the paper used
        fits = part.paper_basis is not None and abs(encoder / part.paper_basis[0] - 1) < 0.02
        by = requested or (part.paper_basis if fits else None)
        if by is not None:
            divisor, why = by
            tasks = len(names) if requested else part.counted_tasks or len(names)
            if tasks != len(names):
                why = f"{why}; for {tasks} tasks, as it counts, and not for the {len(names)} of this model"
            miscount = part.miscount(model.num_layers, tasks) if encoder == BERT_BASE else None
            more = 0
            if miscount is not None and len(parts) == 1:
                more, why = miscount.parameters, f"{why}; {miscount.why}"
            paper_total, paper_percent = ratios(divisor, more, tasks)
            paper = PaperCount(
                basis=divisor,
                tasks=tasks,
                total_ratio=paper_total,
                trained_percent_per_task=paper_percent,
                why=why,
            )
    only = parts[0] if len(parts) == 1 else None
    if basis is None and only and encoder in only.paper_encoders and len(names) == only.paper_tasks:
        printed = only.printed(model.num_layers)
        if printed is not None:
            paper = PaperCount(
                basis=encoder,
                tasks=len(names),
                total_ratio=printed.ratio,
                trained_percent_per_task=printed.percent,
                why=printed.why,
            )
    return Ledger(
        encoder=encoder,
        shared=shared,
        per_task=per_task,
        heads=heads,
        total=(encoder if held_encoder else 0) + added,
        trained=trained,
        total_ratio=total,
        trained_percent_per_task=percent,
        paper=paper,
    )
