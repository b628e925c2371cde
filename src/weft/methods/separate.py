"""`separate`: one whole encoder a task, the baseline that every paper compares with."""

from weft.methods.method import Method, TrainEncoder


class Separate(Method):
    """A copy of the encoder for each task, behind the same interface.

    Its parameters belong to the task: nothing is shared, and T tasks hold T encoders.
    """

    name = "separate"
    separate = True
    train_encoder: TrainEncoder = "all"
