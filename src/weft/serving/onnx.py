"""Serving an export to ONNX: what it can do, and the model that the batcher runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from weft.errors import WeftError, words
from weft.interop.onnx.backend import checked_export

if TYPE_CHECKING:
    from weft.interop.onnx.folder import Exported
    from weft.model.model import Model
    from weft.serving.settings import ServeSettings


def served_export(folder: Any, settings: ServeSettings) -> Exported:
    """Read an export, and refuse settings that need a bundle; no torch is imported."""
    if settings.admin:
        raise WeftError(
            f"{words('--admin', 'admin=True')}: the tasks of an ONNX graph are fixed, because their "
            "parameters are constants in it; serve the bundle, or export it again and restart the server"
        )
    return checked_export(folder, settings.precision, settings.device, settings.encoder)


def onnx_model(folder: Any, settings: ServeSettings) -> tuple[Model, str]:
    """Load an export; returns the model, and its sha256."""
    from weft.interop.onnx.runtime import OnnxModel

    exported = served_export(folder, settings)
    # threads that wait must not spin, because the HTTP server and the tokenizer need the cores
    model = OnnxModel(exported.folder, settings.threads, spinning=False)
    return cast("Model", model), exported.sha256
