"""`weft export`: one task of a bundle for another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import BundleArgument, EncoderOption, Json, TaskOption, one_task
from weft.cli.output import print_json
from weft.errors import WeftError, did_you_mean

TARGETS = ("peft",)


def export(
    bundle: BundleArgument,
    to: Annotated[str, typer.Option(help="export format: peft")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="folder to write to")],
    task: TaskOption = None,
    head: Annotated[
        str,
        typer.Option(
            help="auto: as the family's own classifier where the two are equal, else as head.safetensors; "
            "file: always as head.safetensors"
        ),
    ] = "auto",
    encoder: EncoderOption = None,
    as_json: Json = False,
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
    name = one_task(model, bundle, task)
    export_peft(model, name, out, head)
    config = read_json(out / CONFIG_FILE)
    own_head = config["task_type"] == SEQ_CLS
    facts = {
        "folder": str(out),
        "task": name,
        "task_type": config["task_type"],
        "head": "classifier" if own_head else "head.safetensors",
        "targets": len(config["target_modules"]),
        "rank": config["r"],
        "lora_bias": config["lora_bias"],
    }
    if as_json:
        print_json(facts)
        return
    kind = "AutoModelForSequenceClassification" if own_head else "AutoModel"
    print(f"{out}: task {name}, {facts['targets']} modules of rank {facts['rank']} at the most")
    print(f"load it with peft.PeftModel.from_pretrained({kind}…, {str(out)!r}); see {out / 'README.md'}")
