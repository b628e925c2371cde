"""`weft export --to onnx`: all tasks as one ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from weft.bundle.no_bundle import is_onnx_export
from weft.errors import WeftError
from weft.interop.exporter import Exporter

if TYPE_CHECKING:
    from weft.model.model import Model


class OnnxExporter(Exporter):
    """A folder with one ONNX graph that answers every task; see `export_onnx`."""

    name = "onnx"
    summary = "all tasks as one ONNX graph, with its tokenizer and tasks.json"
    all_tasks = True

    precision: Literal["float32", "int8"] = Field(
        "float32", description="float32, or int8: smaller and faster on a CPU, and outputs differ slightly"
    )

    def check(self, out: Path) -> None:
        """Refuse a path that exists, unless it is an earlier export; and missing packages."""
        from weft.interop.onnx.packages import need

        need("onnx", "onnxscript", "onnxruntime")
        if out.exists() and not is_onnx_export(out):
            raise WeftError(f"{out} exists and is not an export of weft to ONNX; pass a different folder")

    def export(self, model: Model, task: str, out: Path) -> dict[str, Any]:
        """Write the folder; return the facts of `export_onnx`."""
        from weft.interop.onnx.export import export_onnx
        from weft.utils.notes import print_note

        return export_onnx(model, out, self.precision, print_note)

    def report(self, out: Path, task: str, facts: dict[str, Any]) -> list[str]:
        """The tasks, the size, and what to do with the folder."""
        names, size = ", ".join(facts["tasks"]), f"{facts['bytes'] / 1e6:.1f} MB"
        return [
            f"{out}: {len(facts['tasks'])} tasks ({names}), {facts['precision']}, {size}",
            f"  predict: weft predict {out} FILE   serve: weft serve {out}",
        ]
