"""Combining several bundles into one: the function behind `weft.assemble` and `weft assemble`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.bundle.assemble import Assembled

METHODS = ("morris",)
"""The methods that bundles can be converted to while they are combined."""


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
    """Combine the tasks of separately trained bundles into one bundle.

    By default the tensors are copied, and each task gives the same logits as in its bundle
    (`weft.bundle.assemble`). With `method="morris"` the LoRA updates of all tasks become one low-rank tensor,
    which is exact if its rank is large enough (`weft.bundle.assemble_morris`).

    Example:
        >>> done = weft.assemble(["runs/cola", "runs/rte"], "bundles/both")
        >>> done.tasks
        ('cola', 'rte')
        >>> model = weft.load("bundles/both")

    Args:
        bundles: two or more folders of bundles, or of runs that hold them.
        out: the folder of the new bundle.
        method: `morris`; None: the method of the bundles.
        rank: the rank of the tensor, with `method="morris"`; default 64.
        bias_rank: the rank of the matrix of biases, with `method="morris"`; default 4.
        encoder: folder or hub id of the encoder, if it has moved.
        progress: called with the name of each site that is decomposed, and at the end with an empty string.

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
