"""Tests do not note where they drew their seeds.

`torch.manual_seed` also seeds the GPUs. Where none has been used yet, torch keeps that call for later, with
the stack of its caller as text, once for CUDA and once for XPU. Under pytest a stack is deep, and its text
takes a millisecond, in every step of every run of a test. It is shown only if the call fails later on.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.xpu


def note_no_stacks() -> None:
    """From now on, a seed that waits for a GPU comes without the stack of its caller."""
    nothing = SimpleNamespace(format_stack=list)
    for module in (torch.cuda, torch.xpu):
        module.traceback = nothing
