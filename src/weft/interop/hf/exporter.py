"""`weft export --to hf`: one task as a folder that transformers loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.interop.exporter import Exporter

if TYPE_CHECKING:
    from weft.model.model import Model


class HfExporter(Exporter):
    """A folder that transformers loads without weft, adapters merged; see `export_hf`."""

    name = "hf"
    summary = "a folder that transformers and its pipelines load without weft, adapters merged"

    def check(self, out: Path) -> None:
        """Refuse a path that exists, unless it is an earlier export."""
        from weft.interop.folder import check_place

        check_place(out, self.name)

    def export(self, model: Model, task: str, out: Path) -> dict[str, Any]:
        """Write the folder; return its class, and how near its logits are to weft's."""
        from weft.interop.hf.export import write_hf

        _, exported, has_tokenizer = write_hf(model, task, out)
        return {
            "folder": str(out),
            "class": type(exported.model).__name__,
            "loads_with": exported.answering.auto_class,
            "pipeline": exported.answering.pipeline,
            "tokenizer": has_tokenizer,
            "largest_difference": exported.difference,
        }

    def report(self, out: Path, task: str, facts: dict[str, Any]) -> list[str]:
        """Its class, the comparison, and how transformers loads it."""
        code = f"transformers.{facts['loads_with']}.from_pretrained({str(out)!r})"
        if facts["pipeline"] is not None and facts["tokenizer"]:
            code = f"transformers.pipeline({facts['pipeline']!r}, {str(out)!r})"
        lines = [
            f"{out}: task {task} as {facts['class']}; its logits differ from weft's by at most "
            f"{facts['largest_difference']:.1g} on random rows",
            f"load it with {code}; see {out / 'README.md'}",
        ]
        if not facts["tokenizer"]:
            lines.append("the encoder has no tokenizer, so the folder has none")
        return lines
