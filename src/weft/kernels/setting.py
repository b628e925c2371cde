"""What the setting `kernels` may be; no torch is imported to check it."""

from __future__ import annotations

from typing import Literal

Setting = Literal["auto", "reference"]
"""`auto`: the cheapest way through maps of several tasks; `reference`: bit-stable when tasks are added."""
