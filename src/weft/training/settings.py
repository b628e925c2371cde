"""The settings of the `train` section of a run file. Checking them imports no torch."""

from __future__ import annotations

import math
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
    SerializerFunctionWrapHandler,
    model_serializer,
)

from weft.errors import WeftError, did_you_mean
from weft.settings import Settings, SettingsError

MOST_STEPS = 100_000_000
"""The most steps of a run, or of its first phase; the plan of more takes too long to summarize."""


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


def _trackers(value: object) -> list[object]:
    from weft.training.trackers import build_tracker

    entries = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
    try:
        settings = [build_tracker(entry).settings() for entry in entries]
    except WeftError as wrong:
        raise ValueError(str(wrong)) from None
    names = [entry["use"] for entry in settings]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is listed twice; expected each tracker once")
    return settings


def _engine(value: str) -> str:
    from weft.training.engines import AUTO, ENGINES

    known = [AUTO, *ENGINES]
    if value not in known:
        raise ValueError(f"{value!r} does not exist; {did_you_mean(value, known)}")
    return value


def _within(kind: type[Settings]) -> BeforeValidator:
    """A validator for a nested section: its mistakes are reported with all others, under its key."""

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
    """Check `task_weights`, with one message that names the task."""
    if value is None or value == "learned":
        return value
    return _by_task(value, "expected {task: weight}, learned or null")


def _rates(value: object) -> object:
    """Check `lr_of.tasks`, with one message that names the task."""
    return None if value is None else _by_task(value, "expected {task: learning rate} or null")


def _by_task(value: object, expected: str) -> dict[str, float]:
    """Check a number above 0 for each of some tasks."""
    if not isinstance(value, dict):
        raise ValueError(f"{expected}; found {value!r}")
    return {str(task): _above_zero(str(task), number) for task, number in value.items()}


def _above_zero(task: str, value: object) -> float:
    """Check the number of one task; YAML reads 4e-4 as a text, so texts of numbers are accepted."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise ValueError(f"expected a number above 0 for {task!r}; found {value!r}")
    return number


_Beta = Annotated[float, Field(ge=0, lt=1)]


class LearningRates(Settings):
    """Peak learning rates by role, and of single tasks; what is left out uses `train.lr`."""

    what = "lr_of"

    model_config = ConfigDict(allow_inf_nan=False)

    encoder: PositiveFloat | None = Field(None, description="learning rate of the encoder's weights")
    shared: PositiveFloat | None = Field(
        None, description="learning rate of adapters shared by all tasks or by a group"
    )
    task: PositiveFloat | None = Field(None, description="learning rate of one task's adapters and head")
    gates: PositiveFloat | None = Field(
        None, description="constant learning rate of L0 gates; default: method.l0.gate_lr"
    )
    tasks: Annotated[dict[str, float] | None, BeforeValidator(_rates)] = Field(
        None,
        description="learning rates of single tasks, {cola: 1e-3}: of all parameters that belong to that "
        "task alone; they come before the rates of roles",
    )


class Stop(Settings):
    """Early stopping: a task whose score has not improved for some evaluations is no longer sampled."""

    what = "stop"

    model_config = ConfigDict(allow_inf_nan=False)

    patience: PositiveInt = Field(3, description="evaluations without improvement before a task stops")
    min_delta: NonNegativeFloat = Field(0.0, description="the smallest increase that is an improvement")
    after: NonNegativeInt = Field(0, description="number of steps before which no task stops")


class Training(Settings):
    """How a model is trained; every key of the `train` section."""

    what = "train"

    model_config = ConfigDict(allow_inf_nan=False)

    steps: NonNegativeInt = Field(
        1000, le=MOST_STEPS, description="optimizer steps; 0: only the initial heads are evaluated"
    )
    epochs: PositiveFloat | None = Field(
        None, description="the length of the run in epochs, instead of steps; see epoch"
    )
    epoch: Literal["rows", "largest", "largest_each", "sampled", "pals"] = Field(
        "rows",
        description="what an epoch is: as many examples as all tasks have rows (rows); one pass over the "
        "largest task (largest), times the number of tasks (largest_each); until the sampler has drawn the "
        "largest task once (sampled); 300 steps per task (pals)",
    )
    batch_size: PositiveInt = Field(32, le=131_072, description="examples per step")
    accumulate: PositiveInt = Field(
        1, le=65_536, description="micro-batches per step, for gradient accumulation"
    )
    max_length: int = Field(
        128,
        ge=4,
        le=1_000_000,
        description="maximum tokens per row; of a pair, the longer text is truncated first",
    )
    sampler: Annotated[Any, AfterValidator(_sampler)] = Field(
        "proportional",
        description="how tasks are sampled: annealed, counterfactual, mt_uncertainty, power, "
        "proportional, round_robin, square_root, stretched, temperature, uniform",
        validate_default=True,  # the default is stored in full too: run.yaml must read back unchanged
    )
    mixed: bool = Field(
        False, description="whether tasks are sampled per example, so that a step mixes tasks; else per step"
    )
    group_by_length: bool = Field(True, description="length-bucketed batches")
    loss: Literal["task_mean", "example_mean", "sum"] = Field(
        "task_mean", description="how the examples of a step are weighted"
    )
    task_weights: Annotated[dict[str, float] | str | None, BeforeValidator(_weights)] = Field(
        None, description="weight of each task's loss, 1 if left out; learned: by the task's uncertainty"
    )
    conflict: Annotated[Any, AfterValidator(_conflict)] = Field(
        None,
        description="how conflicting task gradients are merged: pcgrad, or a torchjd weighting by "
        "name (upgrad, cagrad, mgda, nash_mtl, …); null: they are summed",
    )
    optimizer: Literal["adamw", "bert_adam"] = Field(
        "adamw", description="adamw, or bert_adam: the optimizer of the original BERT code, used by PALs"
    )
    lr: PositiveFloat | None = Field(None, description="peak learning rate; default: the method's default")
    lr_of: Annotated[LearningRates | None, _within(LearningRates)] = Field(
        None,
        description="peak learning rates by role (encoder, shared, task, gates), and of single tasks (tasks)",
    )
    betas: tuple[_Beta, _Beta] = Field(
        (0.9, 0.999), description="Adam's β₁ and β₂: how slowly its two moving averages change"
    )
    eps: PositiveFloat | None = Field(
        None, description="Adam's ε; default: 1e-8 with adamw, 1e-6 with bert_adam"
    )
    warmup: float = Field(0.06, ge=0, lt=1, description="fraction of the steps in which lr rises from zero")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="lr after the warm-up: linear or cosine decay to zero, or constant"
    )
    weight_decay: NonNegativeFloat = Field(
        0.01, description="the optimizer's weight decay; biases and norms have none"
    )
    ema: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="decay of an exponential moving average of the weights (for example 0.999), which "
        "evaluations, the best weights and the bundle use; null: none",
    )
    clip: PositiveFloat | None = Field(1.0, description="maximum gradient norm; null: no clipping")
    clip_by: Literal["auto", "global", "tensor"] = Field(
        "auto",
        description="the norm that is clipped: of all gradients together, or of each owner's slice of each "
        "weight; auto: global with adamw, tensor with bert_adam",
    )
    absent: Literal["still", "drift"] = Field(
        "still",
        description="whether tasks without an example in a step keep their weights, or drift on momentum",
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="auto: bf16 on a GPU that supports it, else float32"
    )
    engine: Annotated[str, AfterValidator(_engine)] = Field(
        "auto",
        description="how a step runs: eager, op by op; compiled, with compiled encoder blocks; "
        "graph, as a CUDA graph; auto: graph on a GPU, else eager",
    )
    verify_engine: bool = Field(
        True,
        description="whether each batch shape is compared with plain code before the compiled or captured "
        "step trains on it; if they differ, the run falls back to eager",
    )
    trunk_cache: bool = Field(
        False,
        description="whether the frozen blocks below everything that trains run once over all rows, without "
        "dropout, and their outputs are kept in memory",
    )
    seed: int = Field(1, description="random seed of the data order, dropout and initial values")
    evaluate_every: NonNegativeInt = Field(0, description="steps between two evaluations; 0: only at the end")
    evaluate_rows: PositiveInt | None = Field(
        500, description="validation rows per task in these evaluations, always the same; null: all"
    )
    last_evaluation: Literal["whole", "subset"] = Field(
        "whole",
        description="rows of the last evaluation: all validation rows, or evaluate_rows of them",
    )
    baselines: bool = Field(
        True,
        description="whether the last table and metrics.json also have a majority guess and a bag of words, "
        "fitted on at most 4,000 training rows per task; takes a few seconds",
    )
    best: str = Field(
        "average",
        description="score that selects the best model: average, a task's name, one metric of one task "
        "(mrpc.accuracy), an average of the papers (pals_dev, glue9, superglue, mrqa, ner, ca_mtl24), or "
        "per_task: the best weights of each task, if tasks share no weight that trains",
    )
    stop: Annotated[Stop | None, _within(Stop)] = Field(
        None, description="early stopping per task: patience, min_delta, after; null: none"
    )
    starved: PositiveInt | None = Field(
        1000, description="warn if a task has no example for this many steps; null: never"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="with several processes: each holds the whole model (ddp), or the encoder's blocks are "
        "sharded (fsdp)",
    )
    checkpoint_every: NonNegativeInt | None = Field(
        None, description="steps between two checkpoints; 0: none; null: one every five minutes"
    )
    log_every: PositiveInt = Field(50, description="steps between two lines of the log")
    measure_uncertainty: NonNegativeInt = Field(
        0,
        description="steps between two lines of the log with the predictive entropy of each task, measured "
        "on batch_size training examples per task, whatever the sampler; 0: none",
    )
    trackers: Annotated[Any, AfterValidator(_trackers)] = Field(
        [],
        description="where the numbers of the log are shown too: a list of names or {use: NAME, …}: "
        "tensorboard, wandb (Weights & Biases); one that fails is switched off, and the run continues",
    )
    tensorboard: bool = Field(
        False, description="write TensorBoard events beside log.jsonl: short for trackers: [tensorboard]"
    )

    @model_serializer(mode="wrap")
    def _without_steps(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave `steps` out if the run's length is set in epochs: a file must not hold both."""
        settings: dict[str, Any] = serialize(self)
        if self.epochs is not None:
            settings.pop("steps", None)
        return settings
