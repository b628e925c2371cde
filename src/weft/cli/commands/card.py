"""`weft card`: show or write the model card of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.commands.push import Languages, License
from weft.cli.options import BundleArgument, EncoderOption, Json
from weft.cli.output import print_json, print_note, print_written


def card(
    bundle: BundleArgument,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="USER/NAME", help="name of the repository for the card's examples; default: none"
        ),
    ] = None,
    license_: License = None,
    languages: Languages = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="write the card to README.md of the bundle's folder, where weft push finds it"
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the card to this file; default: standard output"),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="make a new card, even if the bundle's folder has a README.md")
    ] = False,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Show the model card of a saved model, as weft push uploads it.

    A README.md in the bundle's folder is the card, and stays as it is. Without one, a card is made from the
    bundle and from the run it is in: its tasks, metrics, parameters and settings, without paths.

    Example: weft card runs/first --name anna/reviews --license mit

    Example: weft card runs/first --write
    """
    from weft.cli.paths import check_place
    from weft.errors import WeftError
    from weft.hub.card import card as current_card
    from weft.hub.card import new_card, write_card
    from weft.hub.facts import card_facts
    from weft.utils.files import write_output
    from weft.utils.hub_repository import repository

    if name is not None and repository(name) is None:
        raise WeftError(f"--name {name!r} is not the name of a repository; expected user/name")
    check_place("--out", out)
    make = (lambda *a, **k: new_card(card_facts(*a, **k))) if new else current_card
    text = make(
        bundle, name, license=license_, languages=tuple(languages or ()), encoder=encoder, tell=print_note
    )
    written = write_card(bundle, text) if write else None
    if out is not None:
        write_output(out, text)
        written = out
    if as_json:
        print_json({"card": text, "written": None if written is None else str(written)})
    elif written is None:
        print(text, end="")
    else:
        print_written(written, as_json=False)
