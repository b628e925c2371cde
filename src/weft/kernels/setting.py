"""The values of the setting `kernels`. No torch is imported to check them."""

from __future__ import annotations

from typing import Literal

Setting = Literal["auto", "reference"]
"""`auto`: the cheapest strategy for maps of several tasks; `reference`: bit-stable when tasks are added."""
