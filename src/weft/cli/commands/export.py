"""`weft export`: one task of a bundle for another library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weft.errors import WeftError, did_you_mean

TARGETS = ("peft",)


def export(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="a bundle, or a run's folder")],
    to: Annotated[str, typer.Option(help="the library: peft")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where to write")],
    task: Annotated[
        str | None, typer.Option(help="whose adapters; needed if there are several tasks")
    ] = None,
    head: Annotated[
        str,
        typer.Option(help="auto: the family's own classifier where it is the same; file: a file"),
    ] = "auto",
    encoder: Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """Write one task as a LoRA folder that PEFT loads, with equal outputs."""
    if to not in TARGETS:
        raise WeftError(f"--to {to!r} is unknown; {did_you_mean(to, TARGETS)}")
    from weft.bundle.load import find_bundle, load

    find_bundle(bundle)
    from weft.interop.peft.export import HEADS, check_place, export_peft
    from weft.interop.peft.folder import read_json
    from weft.interop.peft.format import CONFIG_FILE, SEQ_CLS

    # before the model is loaded
    if head not in HEADS:
        raise WeftError(f"--head {head!r} is unknown; {did_you_mean(head, HEADS)}")
    check_place(out)
    model = load(bundle, encoder=encoder)
    names = [one.name for one in model.tasks]
    if task is None and len(names) > 1:
        raise WeftError(f"{bundle} has {len(names)} tasks, {', '.join(names)}; say which with --task")
    name = names[0] if task is None else task
    export_peft(model, name, out, head)
    config = read_json(out / CONFIG_FILE)
    own_head = config["task_type"] == SEQ_CLS
    told = {
        "folder": str(out),
        "task": name,
        "task_type": config["task_type"],
        "head": "classifier" if own_head else "head.safetensors",
        "targets": len(config["target_modules"]),
        "rank": config["r"],
        "lora_bias": config["lora_bias"],
    }
    if as_json:
        print(json.dumps(told))
        return
    kind = "AutoModelForSequenceClassification" if own_head else "AutoModel"
    print(f"{out}: task {name}, {told['targets']} modules of rank {told['rank']} at the most")
    print(f"load it with peft.PeftModel.from_pretrained({kind}…, {str(out)!r}); see {out / 'README.md'}")
