"""Refusing a device without torch: only what certainly cannot be used."""

import pytest

from weft.errors import WeftError
from weft.utils import devices
from weft.utils.devices import check_device


@pytest.fixture(autouse=True)
def _without_torch(monkeypatch):
    """As in a process that has not imported torch."""
    monkeypatch.setattr(devices, "_torch_is_imported", lambda: False)


@pytest.mark.parametrize("device", [None, "cpu", "mps", "xpu:1", "meta", "hpu"])
def test_what_may_work_is_not_refused(device):
    check_device(device)


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "did you mean 'cuda'"), ("cdua", "did you mean 'cuda'"), ("cuda:x", "expected a name such as")],
)
def test_a_name_that_is_no_device(device, message):
    with pytest.raises(WeftError, match=message):
        check_device(device)


def test_the_build_of_the_installed_torch():
    import torch

    expected = "cuda" if torch.version.cuda else "hip" if torch.version.hip else "cpu"
    assert devices._torch_build() == expected


def test_a_torch_without_cuda(monkeypatch):
    monkeypatch.setattr(devices, "_torch_build", lambda: "cpu")
    with pytest.raises(WeftError, match="Torch not compiled with CUDA enabled; use device='cpu'"):
        check_device("cuda")


def test_hidden_gpus(monkeypatch):
    monkeypatch.setattr(devices, "_torch_build", lambda: "cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(WeftError, match="which hides every GPU"):
        check_device("cuda")


@pytest.mark.parametrize(("gpus", "device", "refused"), [(2, "cuda:1", False), (2, "cuda:2", True)])
def test_the_number_of_gpus(monkeypatch, gpus, device, refused):
    monkeypatch.setattr(devices, "_torch_build", lambda: "cuda")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr(devices, "_gpus", lambda: gpus)
    if not refused:
        check_device(device)
        return
    with pytest.raises(WeftError, match="this machine has 2 GPUs"):
        check_device(device)


def test_in_doubt_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(devices, "_torch_build", lambda: None)
    check_device("cuda:9")
