"""Which of torch's attention kernels inference uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Users:
    """How many passes want cuDNN's attention off, and what it was before the first of them."""

    def __init__(self) -> None:
        self.lock, self.count, self.before = threading.Lock(), 0, True


_users = _Users()


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Inside, attention does not go through cuDNN.

    In bf16 torch prefers cuDNN's attention on Hopper GPUs, which builds a plan for every new shape: 80 ms the
    first time that a batch has a new number of rows or a new length. The memory-efficient kernel needs none.
    The setting is torch's and holds for the process; the last of several passes puts it back.
    """
    with _users.lock:
        if _users.count == 0:
            _users.before = torch.backends.cuda.cudnn_sdp_enabled()
            torch.backends.cuda.enable_cudnn_sdp(False)
        _users.count += 1
    try:
        yield
    finally:
        with _users.lock:
            _users.count -= 1
            if _users.count == 0:
                torch.backends.cuda.enable_cudnn_sdp(_users.before)
