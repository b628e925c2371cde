"""`weft push`: publish a bundle on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import BundleArgument, EncoderOption, Json
from weft.cli.output import print_json, print_table, print_text

License = Annotated[
    str | None,
    typer.Option(
        "--license", metavar="LICENSE", help="license of the model for a new card, such as mit; default: none"
    ),
]
Languages = Annotated[
    list[str] | None,
    typer.Option(
        "--language",
        metavar="LANGUAGE",
        help="language of the texts for a new card, such as en; may be repeated; default: that of the "
        "encoder, if weft knows it",
    ),
]


def push(
    bundle: BundleArgument,
    name: Annotated[
        str, typer.Argument(metavar="USER/NAME", help="repository on the hub; it is created if it is missing")
    ],
    private: Annotated[bool, typer.Option("--private", help="make a new repository private")] = False,
    message: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="message of the commit; default: one with the version of weft"),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            metavar="BRANCH", help="branch to write to; it is created if it is missing; default: main"
        ),
    ] = None,
    with_encoder: Annotated[
        bool,
        typer.Option(
            "--with-encoder", help="include the encoder; needed if it is a folder that others do not have"
        ),
    ] = False,
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="model card to upload; default: README.md of the bundle's folder if there is one, else a "
            "new one; weft card shows it",
        ),
    ] = None,
    license_: License = None,
    languages: Languages = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="upload nothing: list what would be uploaded")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="with --dry-run: write the files to this new folder; default: none"
        ),
    ] = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Publish a saved model and its card on the Hugging Face hub.

    Uploads the files of the bundle and the card, in one commit, and nothing else of the folder: no logs, no
    checkpoints, no data. Log in first: hf auth login. Everybody who may read the repository can then type
    its name where a command takes a bundle: weft predict USER/NAME FILE.

    Example: weft push runs/first anna/reviews --private

    Example: weft push runs/first anna/reviews --dry-run --out staged
    """
    from weft.hub.push import push as publish

    done = publish(
        bundle,
        name,
        private=private,
        message=message,
        revision=revision,
        with_encoder=with_encoder,
        card=card,
        license=license_,
        languages=tuple(languages or ()),
        encoder=encoder,
        dry_run=dry_run,
        out=out,
    )
    if as_json:
        print_json(done.as_dict())
        return
    title = f"{done.name}: what would be uploaded" if dry_run else f"{done.name}: uploaded"
    rows = [[path, size] for path, size in done.files.items()]
    print_table(title, ["file", "bytes"], [*rows, ["all files", sum(done.files.values())]])
    for path in done.removed:
        print_text(f"removed from the repository: {path}")
    if dry_run:
        print_text(f"written: {out}" if out is not None else f"the card: weft card {bundle} --name {name}")
    else:
        print_text(f"published: {done.url} (commit {done.commit})")
        print_text(f"to use it: weft predict {name} FILE")
