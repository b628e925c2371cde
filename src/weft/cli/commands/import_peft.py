"""`weft import`: a LoRA folder of PEFT as a bundle of one task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.options import EncoderOption, Json
from weft.cli.output import print_json, print_notes
from weft.errors import WeftError


def import_peft(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="LoRA folder, as PEFT saves it")],
    out: Annotated[Path, typer.Option(metavar="BUNDLE", help="folder of the new bundle")],
    encoder: EncoderOption = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="name of the task, if the folder has none")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="label names, in the order of their ids")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="classify or regress")] = None,
    texts: Annotated[
        str | None, typer.Option(metavar="TEXT|A,B", help="column of the text, or the two of a pair")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a bundle of one task from a LoRA that PEFT has trained, or that `weft export` has written."""
    from weft.interop.peft.import_ import read_peft

    given: dict[str, Any] = {"name": task, "kind": kind}
    given |= {"labels": _names("--labels", labels), "texts": _names("--texts", texts)}
    model, notes = read_peft(folder, encoder, {k: v for k, v in given.items() if v is not None})
    print_notes(notes)
    model.save(out)
    (one,) = model.tasks
    methods = [part.name for part in model.method.parts]
    if as_json:
        print_json({"bundle": str(out), "task": one.settings(), "method": methods, "notes": notes})
        return
    print(f"bundle: {out}")
    print(
        f"task {one.name}: {one.head}, method {' with '.join(methods)}, encoder {model.encoder_source.name}"
    )


def _names(option: str, given: str | None) -> list[str] | None:
    """`a,b` as a list; a name that is empty is a mistake, such as a comma at the end."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if "" in names:
        raise WeftError(
            f"{option} {given!r}: name {names.index('') + 1} of {len(names)} is empty; expected names with "
            "commas between them, such as a,b"
        )
    return names
