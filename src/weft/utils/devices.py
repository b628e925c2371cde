"""The device that a model runs on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path

from weft.errors import WeftError, did_you_mean, words
from weft.utils import launch_env

USUAL = ("cpu", "cuda", "mps", "xpu")
"""The devices that a hint suggests."""
TYPES = (*USUAL, "meta", "hip", "hpu", "ipu", "maia", "mtia", "privateuseone", "vulkan", "xla")
"""The device types that torch knows without a further package."""


def device_of(device: str | None) -> str:
    """Return the name of a usable device; None selects a GPU if there is one, else the CPU."""
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and launch_env.world() > 1:
        device = f"cuda:{launch_env.local_rank()}"  # one GPU per process of a launcher
    if device == "meta":
        raise WeftError("device 'meta' holds no numbers to compute with; expected cpu, cuda, …")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise _unusable(device, str(wrong).splitlines()[0]) from None
    return device


def check_device(device: str | None) -> None:
    """Refuse a device that certainly cannot be used, within milliseconds: torch is not imported.

    In doubt nothing is refused; `device_of` tries the device later.
    """
    if device is None or _torch_is_imported():  # `device_of` is as fast then, and certain
        return
    kind, _, index = device.partition(":")
    if kind not in TYPES and not _further_backends():
        hint = did_you_mean("cuda" if kind == "gpu" else kind, USUAL)
        raise WeftError(f"device {device!r} does not exist; {hint}")
    if re.fullmatch(r"[a-z]+(:\d+)?", device) is None:
        raise WeftError(f"device {device!r}: expected a name such as cpu, cuda or cuda:1")
    if kind == "cuda" and (why := _no_gpu(int(index or 0))):
        raise _unusable(device, why)


def gpu_count() -> int:
    """The number of NVIDIA GPUs that torch can use, without importing it; 1 if the driver does not tell."""
    if _torch_build() != "cuda" or _no_gpu(0) is not None:
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return _gpus() or 1


def _torch_is_imported() -> bool:
    return "torch" in sys.modules


def _unusable(device: str, why: str) -> WeftError:
    return WeftError(
        f"device {device!r} cannot be used: {why}; use "
        f"{words('--device cpu', 'device=' + repr('cpu'))}, or install PyTorch for this device"
    )


def _no_gpu(index: int) -> str | None:
    """Why there is certainly no GPU with this index; None if there may be one."""
    build = _torch_build()
    if build == "cpu":
        return "Torch not compiled with CUDA enabled"
    if build != "cuda":
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides every GPU"
    if sys.platform != "linux":
        return None
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "found no NVIDIA driver on this machine"
    count = _gpus()
    if count is None or index < count:
        return None
    return f"this machine has {count} GPU{'s' * (count != 1)}"


def _gpus() -> int | None:
    """The number of GPUs by NVML, which makes no CUDA context; None if it does not answer."""
    with contextlib.suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        count = ctypes.c_uint(0)
        if nvml.nvmlInit_v2() == 0:
            answered = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
            nvml.nvmlShutdown()
            return count.value if answered else None
    return None


def _torch_build() -> str | None:
    """What the installed torch was built for: `cpu`, `cuda` or `hip`; None if that cannot be found out.

    torch/version.py is run by itself: importing it as `torch.version` would import torch.
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).with_name("version.py")
    loader = SourceFileLoader("weft_torch_version", str(file))
    version = spec_from_loader(loader.name, loader)
    if version is None or not file.is_file():
        return None
    module = module_from_spec(version)
    try:
        loader.exec_module(module)
    except Exception:  # a file of a different form says nothing about GPUs
        return None
    if not hasattr(module, "cuda"):
        return None
    return "cuda" if module.cuda else "hip" if getattr(module, "hip", None) else "cpu"


def _further_backends() -> bool:
    """Whether a package adds devices to torch."""
    from importlib.metadata import entry_points

    return bool(entry_points(group="torch.backends"))
