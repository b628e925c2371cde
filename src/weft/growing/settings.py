"""The `grow` section of a task file: how a task joins a trained model. No torch is imported to check it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt

from weft.methods.method import encoder_choice
from weft.settings import Settings

SAME = "same"
"""The label map of a head that is copied unchanged."""


def _word(value: object) -> object:
    """Turn a number into text, and refuse a boolean, which YAML makes of no and yes."""
    if isinstance(value, bool):
        raise ValueError("YAML reads no and yes as false and true; put them in quotes: 'no'")
    return str(value) if isinstance(value, int | float) else value


def _label_map(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected {{task: {{new label: its label}}}}, or {{task: same}}; found {value!r}")
    return {str(_word(task)): _labels(task, labels) for task, labels in value.items()}


def _labels(task: object, labels: object) -> str | dict[str, str]:
    if labels == SAME:
        return SAME
    if not isinstance(labels, Mapping):
        raise ValueError(f"{task}: expected {{new label: its label}}, or same; found {labels!r}")
    mapped = {str(_word(new)): _word(old) for new, old in labels.items()}
    for new, old in mapped.items():
        if not isinstance(old, str):
            raise ValueError(f"{task}.{new}: expected a label of {task!r}; found {old!r}")
    return {new: str(old) for new, old in mapped.items()}


def _train_encoder(value: object) -> object:
    return None if value is None else encoder_choice(value)


class GrowSettings(Settings):
    """The `grow` section of a task file."""

    what = "grow"

    only: Literal["task", "head", "all"] = Field(
        "task",
        description="what trains: all parameters of the new task, only its head, or all of the method",
    )
    train_encoder: Annotated[str | None, BeforeValidator(_train_encoder)] = Field(
        None,
        description="with only: all, which encoder parameters train: none, all, biases, norms, or "
        "'layers 6-11'; default: those that the method trains. CA-MTL's transfer trains all",
    )
    start: Annotated[str | None, BeforeValidator(_word)] = Field(
        None,
        description="initial values of the task's parameters: the name of a task to copy; average (of all); "
        "random (the method's initial values); xavier; or auto, the best of all these on a few rows. "
        "Default: auto if the method represents a task by a vector or there is a label map, else random",
    )
    label_map: Annotated[dict[str, Literal["same"] | dict[str, str]], BeforeValidator(_label_map)] = Field(
        {},
        description="for an existing task, its label for each new label: the new head can then start from "
        "that task's head; same for a head that fits unchanged",
    )
    head_start: Literal["probe", "random"] = Field(
        "probe",
        description="initial values of the new head without a label map: fitted to training rows before the "
        "first step, or random, as in the papers",
    )
    fraction: float = Field(1.0, gt=0, le=1, description="the share of the training rows to use")
    validation: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="the share of the training rows used for validation if there is no validation file",
    )
    zero_shot_rows: PositiveInt = Field(
        200, description="number of validation rows that start: auto evaluates"
    )
