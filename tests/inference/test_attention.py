from __future__ import annotations

import threading

import pytest
import torch

from weft.inference.attention import without_cudnn


@pytest.mark.parametrize("before", [True, False])
def test_the_last_of_several_passes_puts_the_setting_back(before):
    kept = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(before)
    inside, leave = threading.Event(), threading.Event()

    def other():
        with without_cudnn():
            inside.set()
            leave.wait(10)

    try:
        with without_cudnn():
            thread = threading.Thread(target=other)
            thread.start()
            assert inside.wait(10)
            assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # the other pass still runs
        leave.set()
        thread.join()
        assert torch.backends.cuda.cudnn_sdp_enabled() == before
    finally:
        torch.backends.cuda.enable_cudnn_sdp(kept)
