"""The `train` section of a run file: how a model is trained. No torch is imported to check it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from weft.errors import WeftError
from weft.settings import Settings


def _sampler(value: object) -> object:
    from weft.sampling import build_sampler

    try:
        return build_sampler(value).settings()
    except WeftError as wrong:
        raise ValueError(str(wrong)) from None


class Training(Settings):
    """How a model is trained; every key of the `train` section."""

    what = "train"

    steps: PositiveInt = Field(1000, description="optimiser steps")
    batch_size: PositiveInt = Field(32, description="examples a step")
    accumulate: PositiveInt = Field(1, description="cut each step into so many parts, one after the other")
    max_length: int = Field(
        128, ge=4, description="tokens of a row; longer texts are cut, the longer one first"
    )
    sampler: Annotated[Any, AfterValidator(_sampler)] = Field(
        "proportional",
        description="how steps choose tasks: uniform, proportional, round_robin, stretched",
        validate_default=True,  # written as a given one is: run.yaml must mean the same when it is read again
    )
    mixed: bool = Field(False, description="whether each example of a step draws its own task")
    group_by_length: bool = Field(True, description="batches of examples of like length")
    loss: Literal["task_mean", "example_mean", "sum"] = Field(
        "task_mean", description="how a step's examples are weighted"
    )
    lr: PositiveFloat | None = Field(None, description="the peak learning rate; default: the method's own")
    warmup: float = Field(0.06, ge=0, lt=1, description="the share of the steps in which lr rises from zero")
    schedule: Literal["linear", "constant"] = Field(
        "linear", description="what lr does after the warm-up: fall to zero, or stay"
    )
    weight_decay: NonNegativeFloat = Field(0.01, description="AdamW's decay; biases and norms have none")
    clip: PositiveFloat | None = Field(1.0, description="the largest norm of a step's gradient; null: any")
    absent: Literal["still", "drift"] = Field(
        "still",
        description="whether tasks without an example in a step stay as they are, or drift on momentum",
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="auto: bf16 where there is a GPU that has it"
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
    best: str = Field("average", description="what decides on the best model: average, or a task's name")
    checkpoint_every: NonNegativeInt = Field(0, description="steps between two checkpoints; 0: none")
    log_every: PositiveInt = Field(50, description="steps between two lines of the log")
    tensorboard: bool = Field(False, description="write TensorBoard events beside log.jsonl")
