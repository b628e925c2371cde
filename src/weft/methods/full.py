"""`full`: all of the encoder trained, one encoder shared by all tasks."""

from pydantic import Field

from weft.methods.method import Method, TrainEncoder


class Full(Method):
    """No adapters; the whole encoder trains for all tasks together (hard parameter sharing)."""

    name = "full"
    default_lr = 1e-4
    train_encoder: TrainEncoder = Field("all", description="what of the encoder trains")
