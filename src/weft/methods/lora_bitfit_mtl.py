"""`lora_bitfit_mtl`: one LoRA and one vector a bias for all tasks (MORRIS, its multi-task baseline)."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from weft.methods.lora_bitfit import LoraBitfit
from weft.methods.method import Share


class LoraBitfitMtl(LoraBitfit):
    """`lora_bitfit` with one set for all tasks: what MORRIS is where all its B and E are 1."""

    name = "lora_bitfit_mtl"
    default_lr = 4e-4
    rank: PositiveInt = Field(64, description="r, the rank of every update; the paper tries 8 to 64")
    share: Share = Field("all", description="all: one for all; task: each its own; or {group: [task, …]}")
