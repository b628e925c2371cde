"""`separate`: one whole encoder a task, the baseline that every paper compares with."""

from pydantic import Field

from weft.methods.method import Method, TrainEncoder


class Separate(Method):
    """A copy of the encoder for each task, behind the same interface.

    Its parameters belong to the task: nothing is shared, and T tasks hold T encoders.
    """

    name = "separate"
    default_lr = 1e-4
    separate = True
    train_encoder: TrainEncoder = Field("all", description="what of each encoder trains")
