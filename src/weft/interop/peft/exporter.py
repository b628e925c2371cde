"""`weft export --to peft`: one task as a LoRA folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from weft.errors import did_you_mean
from weft.interop.exporter import Exporter

if TYPE_CHECKING:
    from weft.model.model import Model

HEADS = ("auto", "file")


def _head(value: object) -> object:
    if value not in HEADS:
        raise ValueError(f"{value!r} is unknown; {did_you_mean(str(value), HEADS)}")
    return value


class PeftExporter(Exporter):
    """A LoRA folder that PEFT loads, with equal outputs; see `export_peft`."""

    name = "peft"
    summary = "a LoRA folder that PEFT loads, with equal outputs"

    head: Annotated[str, BeforeValidator(_head)] = Field(
        "auto", description="auto: the family's classifier if it is the same function; file: head.safetensors"
    )
    base: str | None = Field(
        None,
        description="hub id of the encoder, written into the folder; default: if weft knows it, that one",
    )

    def check(self, out: Path) -> None:
        """Refuse a path that exists, unless it is an earlier export."""
        from weft.interop.peft.export import check_place

        check_place(out)

    def export(self, model: Model, task: str, out: Path) -> dict[str, Any]:
        """Write the folder; return the main settings of its configuration."""
        from weft.interop.peft.export import export_peft
        from weft.interop.peft.format import CONFIG_FILE, SEQ_CLS
        from weft.utils.safe_json import read_json

        export_peft(model, task, out, self.head, self.base)
        config = read_json(out / CONFIG_FILE, "the export has written none")
        return {
            "folder": str(out),
            "task_type": config["task_type"],
            "head": "classifier" if config["task_type"] == SEQ_CLS else "head.safetensors",
            "targets": len(config["target_modules"]),
            "rank": config["r"],
            "lora_bias": config["lora_bias"],
        }

    def report(self, out: Path, task: str, facts: dict[str, Any]) -> list[str]:
        """Its size, and how PEFT loads it."""
        modules = f"{facts['targets']} target module{'s' * (facts['targets'] > 1)}"
        auto = "AutoModelForSequenceClassification" if facts["head"] == "classifier" else "AutoModel"
        return [
            f"{out}: task {task}, {modules}, rank {facts['rank']} at most",
            f"load it with peft.PeftModel.from_pretrained({auto}…, {str(out)!r}); see {out / 'README.md'}",
        ]
