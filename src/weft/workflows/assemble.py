"""One bundle of several: what `weft.assemble` and `weft assemble` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.bundle.assemble import Assembled

METHODS = ("morris",)
"""The methods that bundles can be turned into while they are put together."""


def assemble(
    bundles: Sequence[str | Path],
    out: str | Path,
    *,
    method: str | None = None,
    rank: int | None = None,
    bias_rank: int | None = None,
    encoder: Any = None,
    progress: Callable[[str], None] = lambda site: None,
) -> Assembled:
    """Put the tasks of bundles that were trained apart into one bundle.

    As they are, each task gives the logits of its own bundle (`weft.bundle.assemble`). With
    `method="morris"` the tasks' LoRA updates become one low-rank tensor of all tasks, which is exact where
    its rank is large enough (`weft.bundle.assemble_morris`).

    Example:
        >>> done = weft.assemble(["runs/cola", "runs/rte"], "bundles/both")
        >>> done.tasks
        ('cola', 'rte')
        >>> model = weft.load("bundles/both")

    Args:
        bundles: the bundles, or runs' folders that hold them; two or more.
        out: the new bundle's folder.
        method: `morris`; None: the bundles' own method.
        rank: the rank of the tensor, with `method="morris"`; default 64.
        bias_rank: the rank of the matrix of biases, with `method="morris"`; default 4.
        encoder: folder or hub id of the encoder, if it has moved.
        progress: called with the name of each site that is decomposed; at the end with an empty one.

    Returns:
        `folder`, `tasks`, `method` and `notes`; with `method="morris"` also the `errors` of each site.
    """
    if isinstance(bundles, str | Path):
        raise WeftError(f"bundles: expected a list of folders; found {str(bundles)!r}")
    if method is not None and method not in METHODS:
        raise WeftError(f"method {method!r}; {did_you_mean(method, METHODS)}")
    ranks = {key: n for key, n in (("rank", rank), ("bias_rank", bias_rank)) if n is not None}
    if method is None:
        if ranks:
            key, value = next(iter(ranks.items()))
            raise WeftError(f"{key} {value} belongs to method 'morris'; leave it out, or add method='morris'")
        from weft.bundle.assemble import assemble as put_together

        return put_together(bundles, out, encoder=encoder)
    from weft.bundle.assemble_morris import assemble_morris

    return assemble_morris(bundles, out, **ranks, encoder=encoder, progress=progress)
