"""`weft import`: convert a LoRA that PEFT has saved to a bundle with one task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.completion import among
from weft.cli.options import EncoderOption, Json
from weft.cli.output import print_json, print_notes, print_text
from weft.errors import WeftError


def import_peft(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="LoRA folder that PEFT's save_pretrained has written")
    ],
    out: Annotated[Path, typer.Option(metavar="BUNDLE", help="folder to write the new bundle to")],
    encoder: EncoderOption = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="name of the task; default: the one that weft export has recorded"),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="label names, in the order of their ids; default: from the folder"),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="kind of the task: classify or regress; default: from the folder",
            autocompletion=among("classify", "regress"),
        ),
    ] = None,
    texts: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT|A,B",
            help="column of the text, or the two columns of a pair; default: from the folder, else text",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Convert a LoRA trained with PEFT to a bundle.

    The bundle has one task. FOLDER may also be one that `weft export --to peft` has written.

    Example: weft import peft/cola --task cola --labels no,yes --out cola
    """
    from weft.interop.peft.import_ import read_peft

    settings: dict[str, Any] = {"name": task, "kind": kind}
    settings |= {"labels": _names("--labels", labels), "texts": _names("--texts", texts)}
    model, notes = read_peft(folder, encoder, {k: v for k, v in settings.items() if v is not None})
    print_notes(notes)
    model.save(out)
    (imported,) = model.tasks
    methods = [part.name for part in model.method.parts]
    if as_json:
        print_json({"bundle": str(out), "task": imported.settings(), "method": methods, "notes": notes})
        return
    print_text(f"bundle: {out}")
    print_text(
        f"task {imported.name}: {imported.head}, method {' with '.join(methods)}, "
        f"encoder {model.encoder_source.name}"
    )


def _names(option: str, text: str | None) -> list[str] | None:
    """Split `a,b` into a list; an empty name is an error, such as after a comma at the end."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise WeftError(
            f"{option} {text!r}: name {names.index('') + 1} of {len(names)} is empty; expected names with "
            "commas between them, such as a,b"
        )
    return names
