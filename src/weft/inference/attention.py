"""The choice of torch's attention kernels in inference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from weft.utils.threads import WhileUsed


def _turn_off() -> Callable[[], object]:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    return partial(torch.backends.cuda.enable_cudnn_sdp, before)


without_cudnn = WhileUsed(_turn_off)
"""A context in which attention does not go through cuDNN.

In bf16 torch prefers cuDNN's attention on Hopper GPUs, which builds a plan for every new shape: 80 ms the
first time that a batch has a new number of rows or a new length. The memory-efficient kernel needs no
plan."""
