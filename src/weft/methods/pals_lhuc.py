"""`pals_lhuc`: projected attention layers, each scaled by LHUC."""

from __future__ import annotations

from pydantic import Field

from weft.methods.pals import Pals


class PalsLhuc(Pals):
    """`pals` with TS(h) scaled unit by unit by 2σ(l), as the authors' code does when both are on."""

    name = "pals_lhuc"
    lhuc: bool = Field(
        True, description="scale the function's result by 2σ(l), with one l per task and layer"
    )
