"""`weft import`: a LoRA folder of PEFT as a bundle of one task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.errors import WeftError


def import_peft(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="a LoRA folder, as PEFT saves it")],
    out: Annotated[Path, typer.Option(metavar="BUNDLE", help="where to write the bundle")],
    encoder: Annotated[str | None, typer.Option(help="the encoder, if not the one the folder names")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="the task's name, if the folder has none")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="its labels, in the order of their ids")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="classify or regress")] = None,
    texts: Annotated[
        str | None, typer.Option(metavar="TEXT|A,B", help="the column of its text, or those of a pair")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """Make a bundle of one task from a LoRA that PEFT has trained, or that `weft export` has written."""
    from weft.interop.peft.import_ import read_peft

    given: dict[str, Any] = {"name": task, "kind": kind}
    given |= {"labels": _names("--labels", labels), "texts": _names("--texts", texts)}
    model, notes = read_peft(folder, encoder, {k: v for k, v in given.items() if v is not None})
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    model.save(out)
    (one,) = model.tasks
    methods = [part.name for part in model.method.parts]
    if as_json:
        print(json.dumps({"bundle": str(out), "task": one.settings(), "method": methods, "notes": notes}))
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
