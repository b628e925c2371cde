"""Task embeddings z, from which conditional adapters compute their parameters (CA-MTL, section 3.3.1)."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.stacked import STD, StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule


class TaskEmbedding(StackedModule):
    """z_t, one vector per task: z [S, d] starts at N(0, std²), by default 0.02.

    In a conditional method it is the only parameter of a single task, apart from its head.

    Args:
        width: d.
        slots: the slots of z.
        seed: the random seed of the initial values.
        place: its name in the model, which the initial values depend on.
        std: the standard deviation of the initial values.
    """

    def __init__(self, width: int, slots: Slots, seed: int, place: str, std: float = STD) -> None:
        super().__init__()
        self.stack("z", (width,), slots, "weight")
        self.start("z", lambda t, g: t.normal_(0.0, std, generator=g), seed, place)

    def forward(self, route: Route) -> Tensor:
        """The rows' z, [R, d], or [1, d] where all rows have one."""
        return self.take("z", route)


class TransformedEmbedding(nn.Module):
    """z' = W·z + b, one map for all tasks; the released code conditions on it everywhere in the encoder.

    Args:
        embedding: z.
        width: d.
        slots: one for all tasks.
        seed: of the start.
        place: where in the model it is.
    """

    def __init__(self, embedding: TaskEmbedding, width: int, slots: Slots, seed: int, place: str) -> None:
        super().__init__()
        self.place = place
        self.embedding = embedding
        self.transform = StackedLinear(width, width, slots, seed, place)

    def prepare(self, route: Route) -> None:
        """Compute z' once for all adapters that read it; called before the first block."""
        route.prepared[self.place] = self(route)

    def forget(self) -> None:
        """Do nothing: z' is stored in the route."""

    def forward(self, route: Route) -> Tensor:
        """The rows' z', [R, d] or [1, d]."""
        prepared = route.prepared.get(self.place)
        if prepared is not None:
            return prepared
        z: Tensor = self.embedding(route)
        transformed: Tensor = self.transform(z[:, None], route)
        return transformed[:, 0]


Condition = TaskEmbedding | TransformedEmbedding
"""A module that returns the vector of each row for a route, [R, d] or [1, d]."""
