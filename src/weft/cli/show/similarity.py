"""`weft show similarity`: which tasks change the encoder in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import BundleArgument, EncoderOption, Json, Layers, Plot
from weft.cli.output import print_json, print_notes, print_written
from weft.cli.paths import check_plot
from weft.cli.show.matrices import print_matrix

if TYPE_CHECKING:
    from weft.analysis.similarity import Similarity


def similarity(
    bundle: BundleArgument,
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="order of the tasks: clustered, given, paper, or a,b,c")
    ] = "clustered",
    sites: Annotated[
        str | None, typer.Option(help="query, 'query,value', …: these sites alone, each separately")
    ] = None,
    layers: Layers = None,
    plot: Plot = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
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
    print_notes((*found.notes, *_idle(found)))
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.similarity import write_picture

        write_picture(found, plot, kinds)
    if as_json:
        print_json({"tasks": list(names), **found.as_dict()})
    else:
        _print(found, kinds)
    print_written(plot, as_json)


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
