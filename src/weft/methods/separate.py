"""`separate`: one whole encoder per task, the baseline that every paper compares with."""

from pydantic import Field

from weft.methods.method import Method, TrainEncoder


class Separate(Method):
    """One copy of the encoder per task, behind the same interface.

    Nothing is shared: T tasks have T encoders.
    """

    name = "separate"
    default_lr = 1e-4
    separate = True
    train_encoder: TrainEncoder = Field("all", description="which parameters of each encoder train")
