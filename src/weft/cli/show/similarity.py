"""`weft show similarity`: the cosine similarity of the tasks' updates of the encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among
from weft.cli.options import BundleArgument, EncoderOption, Json, Layers, Plot
from weft.cli.output import print_json, print_notes, print_written
from weft.cli.paths import check_plot
from weft.cli.show.matrices import print_matrix

if TYPE_CHECKING:
    from weft.analysis.similarity import Similarity


def similarity(
    bundle: BundleArgument,
    order: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            autocompletion=among("clustered", "given", "paper"),
            help="order of the tasks: clustered (similar tasks side by side), given (as in the model), "
            "paper (as in the MORRIS paper), or all names, such as a,b,c",
        ),
    ] = "clustered",
    sites: Annotated[
        str | None,
        typer.Option(
            metavar="SITE,SITE",
            help="use only these linear maps, and show each separately, such as query or query,value; "
            "default: all together",
        ),
    ] = None,
    layers: Layers = None,
    plot: Plot = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Compare tasks by how they change the encoder.

    Prints the cosine similarity of the tasks' updates of the weights, and of the biases, as in the MORRIS
    paper.

    Example: weft show similarity runs/lora --layers 0-2 --plot similarity.svg
    """
    from weft.analysis.similarity_order import ordered, read_order

    check_plot(plot)
    task_order, kinds = read_order(order), _kinds(sites)
    from weft.bundle.load import load
    from weft.bundle.manifest import find_bundle

    find_bundle(bundle)
    model = load(bundle, encoder=encoder)
    from weft.analysis.similarity import similarity as similarity_of
    from weft.encoder.sites import parse_layers

    numbers = None if layers is None else parse_layers(layers, model.num_layers)
    similarities = similarity_of(model)
    names = similarities.tasks
    similarities = ordered(similarities.within(kinds, numbers), task_order)
    print_notes((*similarities.notes, *_idle(similarities)))
    # the file first: the reader of a pipe may close it before everything is printed
    if plot is not None:
        from weft.analysis.plots.similarity import write_picture

        write_picture(similarities, plot, kinds)
    if as_json:
        print_json({"tasks": list(names), **similarities.as_dict()})
    else:
        _print(similarities, kinds)
    print_written(plot, as_json)


def _kinds(sites: str | None) -> list[str] | None:
    """The requested kinds of site, without repetitions; None for all."""
    from weft.encoder.sites import check_kind

    if sites is None:
        return None
    return list(dict.fromkeys(check_kind(kind.strip()) for kind in sites.split(",")))


def _idle(similarities: Similarity) -> Iterator[str]:
    idle = similarities.idle
    if len(idle) == len(similarities.tasks):
        yield "the updates of all tasks are zero here: no similarity is defined"
    elif idle:
        yield f"all updates of {', '.join(idle)} are zero here: no similarity to it is defined"


def _print(similarities: Similarity, kinds: list[str] | None) -> None:
    """Print the matrices of the chart, one table per matrix."""
    from weft.analysis.plots.similarity import panels_of

    first = True
    for row in panels_of(similarities, kinds):
        for title, matrix in row:
            if not first:
                print()
            first = False
            print_matrix(f"similarity of updates: {title}", similarities.tasks, matrix)
