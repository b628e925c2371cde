"""`weft show similarity`: which tasks change the encoder in the same way."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.paths import check_plot
from weft.cli.show.matrices import numbers, print_matrix

if TYPE_CHECKING:
    from weft.analysis.similarity import Matrix, Similarity


def similarity(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="a bundle, or a run's folder")],
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="of the tasks: clustered, given, paper, or a,b,c")
    ] = "clustered",
    sites: Annotated[
        str | None, typer.Option(help="query, 'query,value', …: these sites alone, each by itself")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="2, 0-2, 'top half', …; by default all, and what is outside them")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|FILE.png", help="draw the heat maps here")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """How similar the tasks' updates of the encoder are (MORRIS): the cosine, weights and biases apart."""
    from weft.analysis.similarity_order import ordered, read_order

    check_plot(plot)
    wanted, kinds = read_order(order), _kinds(sites)
    from weft.bundle.load import find_bundle, load

    find_bundle(bundle)
    model = load(bundle, encoder=encoder)
    from weft.analysis.similarity import similarity as similarity_of
    from weft.encoder.sites import parse_layers

    numbers = None if layers is None else parse_layers(layers, model.num_layers)
    found = similarity_of(model)
    names = found.tasks
    found = ordered(found.within(kinds, numbers), wanted)
    for note in (*found.notes, *_idle(found)):
        print(f"note: {note}", file=sys.stderr)
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.similarity import write_picture

        write_picture(found, plot, kinds)
    if as_json:
        print(json.dumps({"tasks": list(names), **_as_dict(found)}))
    else:
        _print(found, kinds)
    if plot is not None:
        print(f"written: {plot}", file=sys.stderr if as_json else sys.stdout)


def _kinds(sites: str | None) -> list[str] | None:
    """The kinds of site asked for, each once; None for all."""
    from weft.encoder.sites import check_kind

    if sites is None:
        return None
    return list(dict.fromkeys(check_kind(kind.strip()) for kind in sites.split(",")))


def _idle(found: Similarity) -> Iterator[str]:
    idle = found.idle
    if len(idle) == len(found.tasks):
        yield "no task has changed anything here: the updates are all zero, and no similarity is defined"
    elif idle:
        yield f"all updates of {', '.join(idle)} are zero here, so that no similarity to it is defined"


def _as_dict(found: Similarity) -> dict[str, object]:
    """Each a {weight, bias}, its matrices in the chosen order; null where there is none, or no number."""
    return {
        "order": list(found.tasks),
        "average": _both(found.average("weight"), found.average("bias")),
        "by_kind": {k: _both(found.average("weight", k), found.average("bias", k)) for k in found.kinds},
        "by_layer": {
            str(n): _both(found.average("weight", layer=n), found.average("bias", layer=n))
            for n in found.layers
        },
        "by_site": {one.site.key: _both(one.weight, one.bias) for one in found.sites},
    }


def _both(weight: Matrix | None, bias: Matrix | None) -> dict[str, list[list[float | None]] | None]:
    return {"weight": numbers(weight), "bias": numbers(bias)}


def _print(found: Similarity, kinds: list[str] | None) -> None:
    """The same matrices as in the picture, each a table."""
    from weft.analysis.plots.similarity import panels_of

    first = True
    for row in panels_of(found, kinds):
        for title, matrix in row:
            if not first:
                print()
            first = False
            print_matrix(f"similarity of updates: {title}", found.tasks, matrix)
