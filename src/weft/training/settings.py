"""The `train` section of a run file: how a model is trained. No torch is imported to check it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

from weft.errors import WeftError, did_you_mean
from weft.settings import Settings, SettingsError


def _sampler(value: object) -> object:
    from weft.sampling import build_sampler

    try:
        return build_sampler(value).settings()
    except WeftError as wrong:
        raise ValueError(str(wrong)) from None


def _conflict(value: object) -> object:
    if value is None:
        return None
    from weft.training.conflict import build_conflict

    try:
        return build_conflict(value).settings()
    except WeftError as wrong:
        raise ValueError(str(wrong)) from None


def _engine(value: str) -> str:
    from weft.training.engines import AUTO, ENGINES

    known = [AUTO, *ENGINES]
    if value not in known:
        raise ValueError(f"{value!r} does not exist; {did_you_mean(value, known)}")
    return value


def _within(kind: type[Settings]) -> BeforeValidator:
    """A section within the section: its mistakes are told with all others, under its key."""

    def build(value: object) -> object:
        if value is None or isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            known = ", ".join(kind.model_fields)
            raise ValueError(f"expected settings ({known}); found {value!r}")
        try:
            return kind(**{str(key): setting for key, setting in value.items()})
        except SettingsError as wrong:
            raise ValueError("; ".join(f"{key}: {text}" for key, text in wrong.mistakes)) from None

    return BeforeValidator(build)


def _weights(value: object) -> object:
    """What `task_weights` may be, told once and by the task."""
    if value is None or value == "learned":
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected {{task: weight}}, learned or null; found {value!r}")
    for task, weight in value.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (number and 0 < weight < float("inf")):
            raise ValueError(f"expected a number above 0 for {task!r}; found {weight!r}")
    return {str(task): float(weight) for task, weight in value.items()}


class LearningRates(Settings):
    """Peak learning rates by role; a role that is left out has `train.lr`."""

    what = "lr_of"

    model_config = ConfigDict(allow_inf_nan=False)

    encoder: PositiveFloat | None = Field(None, description="of the encoder's own weights")
    shared: PositiveFloat | None = Field(None, description="of adapters that all tasks, or a group, share")
    task: PositiveFloat | None = Field(None, description="of what belongs to one task: adapters and head")
    gates: PositiveFloat | None = Field(None, description="of L0 gates, constant; default: method.l0.gate_lr")


class Stop(Settings):
    """When a task is drawn no more: its score has not risen for some evaluations."""

    what = "stop"

    model_config = ConfigDict(allow_inf_nan=False)

    patience: PositiveInt = Field(3, description="evaluations without a better score before a task stops")
    min_delta: NonNegativeFloat = Field(0.0, description="how much better counts as better")
    after: NonNegativeInt = Field(0, description="no task stops in the first so many steps")


class Training(Settings):
    """How a model is trained; every key of the `train` section."""

    what = "train"

    model_config = ConfigDict(allow_inf_nan=False)

    steps: PositiveInt = Field(1000, description="optimiser steps")
    batch_size: PositiveInt = Field(32, description="examples a step")
    accumulate: PositiveInt = Field(1, description="cut each step into so many parts, one after the other")
    max_length: int = Field(
        128, ge=4, description="tokens of a row; longer texts are cut, the longer one first"
    )
    sampler: Annotated[Any, AfterValidator(_sampler)] = Field(
        "proportional",
        description="how steps choose tasks: annealed, counterfactual, mt_uncertainty, power, "
        "proportional, round_robin, square_root, stretched, temperature, uniform",
        validate_default=True,  # written as a given one is: run.yaml must mean the same when it is read again
    )
    mixed: bool = Field(False, description="whether each example of a step draws its own task")
    group_by_length: bool = Field(True, description="batches of examples of like length")
    loss: Literal["task_mean", "example_mean", "sum"] = Field(
        "task_mean", description="how a step's examples are weighted"
    )
    task_weights: Annotated[dict[str, float] | str | None, BeforeValidator(_weights)] = Field(
        None, description="what each task's loss weighs, 1 if left out; learned: by its uncertainty"
    )
    conflict: Annotated[Any, AfterValidator(_conflict)] = Field(
        None,
        description="how the gradients of a step's tasks are merged: pcgrad, or a weighting of torchjd by "
        "name (upgrad, cagrad, mgda, nash_mtl, …); null: their sum",
    )
    optimizer: Literal["adamw", "bert_adam"] = Field(
        "adamw", description="bert_adam: the optimiser of the first BERT, as PALs were trained"
    )
    lr: PositiveFloat | None = Field(None, description="the peak learning rate; default: the method's own")
    lr_of: Annotated[LearningRates | None, _within(LearningRates)] = Field(
        None, description="peak learning rates by role: encoder, shared, task, gates"
    )
    warmup: float = Field(0.06, ge=0, lt=1, description="the share of the steps in which lr rises from zero")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="what lr does after the warm-up: fall to zero in a line or a cosine, or stay"
    )
    weight_decay: NonNegativeFloat = Field(
        0.01, description="the optimiser's decay; biases and norms have none"
    )
    ema: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="decay of an exponential moving average of the weights (0.999, say), which evaluations, "
        "the best weights and the bundle use; null: none",
    )
    clip: PositiveFloat | None = Field(1.0, description="the largest norm of a step's gradient; null: any")
    clip_by: Literal["auto", "global", "tensor"] = Field(
        "auto",
        description="what the norm is of: all gradients together, or each owner's part of each weight; "
        "auto: global with adamw, tensor with bert_adam",
    )
    absent: Literal["still", "drift"] = Field(
        "still",
        description="whether tasks without an example in a step stay as they are, or drift on momentum",
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="auto: bf16 where there is a GPU that has it"
    )
    engine: Annotated[str, AfterValidator(_engine)] = Field(
        "auto",
        description="how a step runs: eager, line by line; compiled, with the encoder's blocks compiled; "
        "graph, as a CUDA graph; auto: graph on a GPU, else eager",
    )
    verify_engine: bool = Field(
        True,
        description="whether each shape of batch is compared with plain code before it is trained on "
        "compiled or captured; where they differ, the run goes on eagerly",
    )
    trunk_cache: bool = Field(
        False,
        description="whether the blocks below all that trains run once over all rows, without dropout, and "
        "what they give is kept in memory",
    )
    seed: int = Field(1, description="of the data's order, dropout and all start values")
    evaluate_every: NonNegativeInt = Field(0, description="steps between two evaluations; 0: only at the end")
    evaluate_rows: PositiveInt | None = Field(
        500, description="validation rows a task looked at then, always the same; null: all"
    )
    last_evaluation: Literal["whole", "subset"] = Field(
        "whole",
        description="what the last evaluation looks at: all validation rows, or evaluate_rows of them",
    )
    best: str = Field(
        "average",
        description="what decides on the best model: average, a task's name, or per_task: each task's own "
        "best weights, where tasks share no weight that trains",
    )
    stop: Annotated[Stop | None, _within(Stop)] = Field(
        None, description="when a task is drawn no more: patience, min_delta, after; null: never"
    )
    starved: PositiveInt | None = Field(
        1000, description="warn of a task that goes so many steps without an example; null: never"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="several processes: each holds the whole model (ddp), or the encoder's blocks are "
        "spread over them (fsdp)",
    )
    checkpoint_every: NonNegativeInt = Field(0, description="steps between two checkpoints; 0: none")
    log_every: PositiveInt = Field(50, description="steps between two lines of the log")
    tensorboard: bool = Field(False, description="write TensorBoard events beside log.jsonl")
