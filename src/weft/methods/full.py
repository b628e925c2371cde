"""`full`: the whole encoder trains and is shared by all tasks."""

from pydantic import Field

from weft.methods.method import Method, TrainEncoder


class Full(Method):
    """No adapters; the whole encoder trains for all tasks together (hard parameter sharing)."""

    name = "full"
    default_lr = 1e-4
    train_encoder: TrainEncoder = Field("all", description="which parameters of the encoder train")
