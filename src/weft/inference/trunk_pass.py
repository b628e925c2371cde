"""A forward pass that runs the lowest blocks once for equal rows, as one function that can be captured."""

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
    """Run a forward pass in which the lowest blocks run once for equal rows.

    Args:
        model: the model.
        inputs: the inputs of `Model.forward`. If `depth` is not 0, they also hold the inputs of the distinct
            rows, [U, L], under the same names with the prefix `TRUNK`, and `ROW_OF`, the distinct row of each
            row, [R].
        examples: as in `Model.forward`.
        depth: how many of the lowest blocks run once for equal rows; 0: all blocks run over all rows.
    """
    if not depth:
        return model.run(**inputs, examples=examples)
    below = {name.removeprefix(TRUNK): x for name, x in inputs.items() if name.startswith(TRUNK)}
    trunk = run_trunk(model, below, below["task"], depth).of_rows(inputs[ROW_OF])
    above = {name: x for name, x in inputs.items() if not name.startswith(TRUNK) and name != ROW_OF}
    return model.run(**above, examples=examples, trunk=trunk)
