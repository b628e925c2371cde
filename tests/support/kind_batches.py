"""Batches of examples of one kind among strangers, their rows anywhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from weft.core.layout import Layout
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.collate import Places
from weft.tasks.kinds.kind import Kind

LENGTH = 6


class Company(NamedTuple):
    """Examples of one kind and of others in one batch.

    Attributes:
        mine: whether each example is of the kind, E of them.
        rows: the rows of each example, in their order.
        layout: the same for losses, with a mask of LENGTH tokens.
        lengths: of each row.
    """

    mine: list[bool]
    rows: list[list[int]]
    layout: Layout
    lengths: list[int]

    @property
    def places(self) -> Places:
        return Places(self.layout.example.tolist(), LENGTH)


@st.composite
def company(draw: Any, fewest: int = 1, most: int = 4) -> Company:
    """Up to five examples, one of the kind at the least; those of the kind have `fewest` … `most` rows."""
    mine = [True, *draw(st.lists(st.booleans(), max_size=4))]
    counts = [draw(st.integers(fewest if own else 1, most if own else 4)) for own in mine]
    order = draw(st.permutations([e for e, count in enumerate(counts) for _ in range(count)]))
    lengths = [draw(st.integers(2, LENGTH)) for _ in order]
    rows = [[r for r, e in enumerate(order) if e == k] for k in range(len(mine))]
    mask = torch.arange(LENGTH) < torch.tensor(lengths)[:, None]
    return Company(mine, rows, Layout(torch.tensor(order), len(mine), mask), lengths)


def random_logits(*shape: int, seed: int = 0, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).requires_grad_()


def losses_of(kind: str | Kind, values: list[Any], batch: Company, logits: Tensor) -> Tensor:
    """The loss of each example: finite for all, with no gradient for a stranger that has weight 0."""
    own = KINDS[kind]() if isinstance(kind, str) else kind
    labels = own.collate(values, batch.mine, batch.places)
    found = own.loss(logits, labels, batch.layout)
    assert found.shape == (len(batch.mine),)
    assert found.isfinite().all()
    weight = torch.tensor([float(m) for m in batch.mine])
    (gradient,) = torch.autograd.grad((found * weight).sum(), logits)
    assert gradient.isfinite().all()
    for e, own_example in enumerate(batch.mine):
        if not own_example:
            where = [e] if own.answers_by == "example" else batch.rows[e]
            assert (gradient[where] == 0).all()
    return found.detach()
