"""`lora_bitfit_mtl`: one LoRA and one vector per bias for all tasks (the multi-task baseline of MORRIS)."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from weft.methods.lora_bitfit import LoraBitfit
from weft.methods.method import Share


class LoraBitfitMtl(LoraBitfit):
    """`lora_bitfit` with one set for all tasks: MORRIS with all B and E equal to 1."""

    name = "lora_bitfit_mtl"
    default_lr = 4e-4
    rank: PositiveInt = Field(64, description="r, the rank of every update; the paper tries 8 to 64")
    share: Share = Field(
        "all", description="all: one for all tasks; task: one per task; or {group: [task, …]}"
    )
