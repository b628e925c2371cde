"""Combining several bundles into one: the function behind `weft.assemble` and `weft assemble`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean, words

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
    merge: str | None = None,
    weights: Mapping[str, float] | None = None,
    density: float | None = None,
    scale: float | None = None,
    seed: int | None = None,
    encoder: Any = None,
    progress: Callable[[str], None] = lambda site: None,
) -> Assembled:
    """Combine the tasks of separately trained bundles into one bundle.

    By default the tensors are copied, and each task gives the same logits as in its bundle
    (`weft.bundle.assemble`). With `method="morris"` the LoRA updates of all tasks become one low-rank tensor,
    which is exact if its rank is large enough (`weft.bundle.assemble_morris`). With `merge` the weights of
    all tasks become one set, and only the heads differ (`weft.bundle.merge`).

    Example:
        >>> done = weft.assemble(["runs/cola", "runs/rte"], "bundles/both")
        >>> done.tasks
        ('cola', 'rte')
        >>> model = weft.load("bundles/both")
        >>> weft.assemble(["runs/cola", "runs/rte"], "bundles/one", merge="ties", density=0.2)

    Args:
        bundles: two or more folders of bundles, or of runs that hold them.
        out: the folder of the new bundle.
        method: `morris`; None: the method of the bundles.
        rank: the rank of the tensor, with `method="morris"`, default 64; or the largest rank of a merged
            update, with `merge`, default the sum of the tasks' ranks.
        bias_rank: the rank of the matrix of biases, with `method="morris"`; default 4.
        merge: `linear`, `task_arithmetic`, `ties`, `dare` or `dare_ties`; None: the tasks stay as they are.
        weights: with `merge`, the weights of tasks by name; 1 for the others.
        density: with `ties` and `dare`, the share of each task vector's entries that is kept; default 0.2 for
            `ties` and 0.5 for `dare`.
        scale: with `merge`, the factor λ of the merged vector; default 1.
        seed: with `dare`, the random seed of the entries that are kept; default 1.
        encoder: folder or hub id of the encoder, if it has moved.
        progress: called with the name of each site that is decomposed, and at the end with an empty string.

    Returns:
        `folder`, `tasks`, `method` and `notes`; with `method="morris"` or `merge` also the `errors` of each
        site.
    """
    if isinstance(bundles, str | Path):
        raise WeftError(f"bundles: expected a list of folders; found {str(bundles)!r}")
    if method is not None and method not in METHODS:
        raise WeftError(f"method {method!r}; {did_you_mean(method, METHODS)}")
    of_merge = {"weights": weights, "density": density, "scale": scale, "seed": seed}
    settings: dict[str, Any] = {key: value for key, value in of_merge.items() if value is not None}
    if merge is not None:
        if method is not None or bias_rank is not None:
            other = words("--as morris", "method='morris'") if method is not None else "bias_rank"
            raise WeftError(f"{words('--merge', 'merge')} {merge} cannot be combined with {other}")
        from weft.bundle.merge import merge_bundles
        from weft.bundle.merge_rules import Merge

        return merge_bundles(bundles, out, Merge(merge, **settings), rank=rank, encoder=encoder)
    if settings:
        key = next(iter(settings))
        raise WeftError(
            f"{words(f'--{key}', key)} belongs to {words('--merge', 'merge')}; leave it out, or add "
            + words("--merge ties", "merge='ties'")
        )
    ranks = {key: n for key, n in (("rank", rank), ("bias_rank", bias_rank)) if n is not None}
    if method is None:
        if ranks:
            key, value = next(iter(ranks.items()))
            raise WeftError(f"{key} {value} belongs to method 'morris'; leave it out, or add method='morris'")
        from weft.bundle.assemble import assemble as put_together

        return put_together(bundles, out, encoder=encoder)
    from weft.bundle.assemble_morris import assemble_morris

    return assemble_morris(bundles, out, **ranks, encoder=encoder, progress=progress)
