"""`full`: all of the encoder trained, one encoder shared by all tasks."""

from weft.methods.method import Method, TrainEncoder


class Full(Method):
    """No adapters; the whole encoder trains for all tasks together (hard parameter sharing)."""

    name = "full"
    train_encoder: TrainEncoder = "all"
