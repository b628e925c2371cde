"""The task as a vector: z, from which conditional adapters make what they need (CA-MTL, section 3.3.1)."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.stacked import STD, StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule


class TaskEmbedding(StackedModule):
    """z_t, a vector a task: z [S, d] starts at N(0, 0.02²).

    It is all that a task owns of a conditional method, its head apart.

    Args:
        width: d.
        slots: who has its own.
        seed: of the start.
        place: where in the model it is: the start depends on it.
    """

    def __init__(self, width: int, slots: Slots, seed: int, place: str) -> None:
        super().__init__()
        self.stack("z", (width,), slots, "weight")
        self.start("z", lambda t, g: t.normal_(0.0, STD, generator=g), seed, place)

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
        """Compute z' once for all that read it: called before the first block."""
        route.prepared[self.place] = self(route)

    def forget(self) -> None:
        """Nothing is kept: z' is the route's."""

    def forward(self, route: Route) -> Tensor:
        """The rows' z', [R, d] or [1, d]."""
        found = route.prepared.get(self.place)
        if found is not None:
            return found
        z: Tensor = self.embedding(route)
        transformed: Tensor = self.transform(z[:, None], route)
        return transformed[:, 0]


Condition = TaskEmbedding | TransformedEmbedding
"""What is called with a route and gives the vector of each row, [R, d] or [1, d]."""
