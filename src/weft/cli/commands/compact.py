"""`weft compact` and `weft show sparsity`: what L0 gates have left of the ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="a bundle, or a run's folder")]
EncoderOption = Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


def compact(
    bundle: BundleArgument,
    out: Annotated[Path, typer.Option(help="the new bundle's folder")],
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Take gates and the components they have shut out of a bundle: the same model, smaller."""
    from weft.bundle.load import find_bundle

    source = find_bundle(bundle)
    if (place := out.resolve()) == (old := source.resolve()) or old in place.parents or place in old.parents:
        raise WeftError(f"--out {out}: this is where the bundle {source} is, give another folder")
    from weft.bundle.load import load
    from weft.cli.tables import print_table

    model = load(bundle, encoder=encoder)
    small = model.compact()
    small.save(out)
    rows = [
        ("parameters of adapters", _adapters(model), _adapters(small)),
        ("bytes of the bundle", _bytes(source), _bytes(out)),
    ]
    if as_json:
        told = {what.replace(" ", "_"): {"before": before, "after": after} for what, before, after in rows}
        print(json.dumps({"bundle": str(out), **told}))
        return
    shares = [[what, before, after, f"{100 * after / before:.1f}%"] for what, before, after in rows]
    print_table(f"{out}", ["", "before", "after", "left"], shares)


def sparsity(bundle: BundleArgument, encoder: EncoderOption = None, as_json: Json = False) -> None:
    """How many components of each layer's low-rank updates are in use."""
    from weft.bundle.load import find_bundle

    find_bundle(bundle)
    from weft.bundle.load import load
    from weft.cli.tables import print_table
    from weft.model.accounting.sparsity import sparsity as account

    model = load(bundle, encoder=encoder)
    told = account(model)
    if not told["all"]:
        raise WeftError(f"{bundle}: method {model.method.name!r} has no updates of low rank")
    if as_json:
        print(json.dumps(told))
        return
    kinds = list(told["all"])
    rows = [
        [name, *(_share(*counts.get(kind, (0, 0))) for kind in kinds)]
        for name, counts in [*told["layers"].items(), ("all", told["all"])]
    ]
    print_table(f"{bundle}: components kept", ["layer", *kinds], rows)


def _share(kept: int, total: int) -> str:
    return f"{kept:,} of {total:,} ({100 * kept / total:.0f}%)" if total else ""


def _adapters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.adapters.parameters())


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
