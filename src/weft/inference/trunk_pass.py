"""A forward pass in which equal rows share the lowest blocks: one function, which can be captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from weft.model.trunk import run_trunk

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.model.output import Output

TRUNK, ROW_OF = "trunk_", "row_of"


def on_trunk(model: Model, inputs: Mapping[str, Tensor], examples: int | None, depth: int) -> Output:
    """A forward pass in which the lowest blocks run once for rows that are equal.

    Args:
        model: the model.
        inputs: what `Model.forward` takes. Where `depth` is not 0, the inputs of the distinct rows [U, L]
            stand beside them under the same names with `TRUNK` before, and `ROW_OF` says which of these each
            row is, [R].
        examples: as in `Model.forward`.
        depth: how many blocks these are; 0: all run over all rows.
    """
    if not depth:
        return model.run(**inputs, examples=examples)
    below = {name.removeprefix(TRUNK): x for name, x in inputs.items() if name.startswith(TRUNK)}
    trunk = run_trunk(model, below, below["task"], depth).of_rows(inputs[ROW_OF])
    rest = {name: x for name, x in inputs.items() if not name.startswith(TRUNK) and name != ROW_OF}
    return model.run(**rest, examples=examples, trunk=trunk)
