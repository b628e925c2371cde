"""`weft export --to sentence-transformers`: the vectors of one task as a sentence encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from weft.errors import did_you_mean
from weft.interop.exporter import Exporter

if TYPE_CHECKING:
    from weft.model.model import Model

NAME = "sentence-transformers"
LOGITS = "logits"
OUTPUTS = ("vectors", LOGITS)


def _output(value: object) -> object:
    if value not in OUTPUTS:
        raise ValueError(f"{value!r} is unknown; {did_you_mean(str(value), OUTPUTS)}")
    return value


class SentenceTransformersExporter(Exporter):
    """A folder that sentence-transformers loads; see `export_sentence_transformers`."""

    name = NAME
    summary = "a folder that SentenceTransformer loads; encode gives the task's vectors, adapters merged"

    output: Annotated[str, BeforeValidator(_output)] = Field(
        "vectors",
        description="vectors: what the task's head reads, as model.embed; logits: the head's outputs",
    )
    normalize: bool = Field(False, description="whether vectors are divided by their norms")

    def check(self, out: Path) -> None:
        """Refuse a path that exists, unless it is an earlier export."""
        from weft.interop.folder import check_place

        check_place(out, self.name)

    def export(self, model: Model, task: str, out: Path) -> dict[str, Any]:
        """Write the folder; return its modules."""
        from weft.interop.sentence_transformers.export import export_sentence_transformers
        from weft.utils.safe_json import parse_json

        export_sentence_transformers(model, task, out, self.output, self.normalize)
        modules = parse_json((out / "modules.json").read_bytes())
        return {
            "folder": str(out),
            "output": self.output,
            "modules": [module["type"].rpartition(".")[2] for module in modules],
        }

    def report(self, out: Path, task: str, facts: dict[str, Any]) -> list[str]:
        """Its modules, and how it is loaded."""
        return [
            f"{out}: task {task}, {facts['output']} by {', '.join(facts['modules'])}",
            f"load it with sentence_transformers.SentenceTransformer({str(out)!r}); see {out / 'README.md'}",
        ]
