"""Which backend answers for a folder: torch for a bundle, onnxruntime for an export. No torch is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from weft.bundle.no_bundle import is_onnx_export
from weft.errors import WeftError, did_you_mean, words
from weft.interop.onnx.folder import Exported, read_exported
from weft.interop.onnx.packages import need

Backend = Literal["torch", "onnx"]
BACKENDS = ("torch", "onnx")


def backend_of(folder: str | Path, backend: str | None) -> Backend:
    """Return the backend for a folder, and refuse one that cannot read it.

    Args:
        folder: a bundle, the folder of a run, or an export to ONNX.
        backend: the requested backend; None: the one that the folder is for.
    """
    option = words(f"--backend {backend}", f"backend={backend!r}")
    if backend is not None and backend not in BACKENDS:
        raise WeftError(f"{option}: {did_you_mean(backend, BACKENDS)}")
    exported = is_onnx_export(folder)
    if backend == "onnx" and not exported:
        raise WeftError(
            f"{option}: {folder} is no export to ONNX; write one first: weft export {folder} --to onnx --out "
            "FOLDER, and pass that folder"
        )
    if backend == "torch" and exported:
        raise WeftError(f"{option}: {folder} is an export to ONNX; pass the bundle that it was exported from")
    return "onnx" if exported else "torch"


def checked_export(folder: str | Path, precision: str, device: str | None, encoder: Any) -> Exported:
    """Read an export, and refuse settings that a graph cannot have.

    Args:
        folder: the export.
        precision: the requested precision; `float32` also stands for no request.
        device: the requested device; None: any.
        encoder: the requested encoder; None: none.
    """
    need("onnxruntime")
    exported = read_exported(folder)
    if precision not in ("float32", exported.precision):
        option = words(f"--precision {precision}", f"precision={precision!r}")
        raise WeftError(
            f"{option}: {folder} was exported in {exported.precision}, which cannot be changed; for int8: "
            "weft export BUNDLE --to onnx --out FOLDER --set precision=int8"
        )
    if device is not None and device.partition(":")[0] != "cpu":
        raise WeftError(f"device {device!r}: an export to ONNX runs on the CPU; leave --device out")
    if encoder is not None:
        raise WeftError(f"encoder {encoder!r}: an export to ONNX has its encoder inside; leave --encoder out")
    return exported
