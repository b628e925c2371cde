"""`weft compact` and `weft show sparsity`: the ranks that L0 gates have kept."""

from __future__ import annotations

from weft.cli.options import BundleArgument, EncoderOption, Json, NewBundle
from weft.cli.output import print_json, print_table
from weft.errors import WeftError


def compact(
    bundle: BundleArgument, out: NewBundle, encoder: EncoderOption = None, as_json: Json = False
) -> None:
    """Remove the components that L0 gates have closed.

    A model trained with `method: {l0: true}` has learned which components of its low-rank updates it needs.
    The new bundle has only those and no gates; its outputs are the same.

    Example: weft compact runs/gated --out bundles/small
    """
    from weft.bundle.compact import compact_bundle

    done = compact_bundle(bundle, out, encoder=encoder)
    if as_json:
        print_json(done.as_dict())
        return
    sizes = {"adapter parameters": done.parameters, "bytes of the bundle": done.bytes}
    rows = [[what, old, new, f"{100 * new / old:.1f}%"] for what, (old, new) in sizes.items()]
    print_table(f"{out}", ["", "before", "after", "after/before"], rows)


def sparsity(bundle: BundleArgument, encoder: EncoderOption = None, as_json: Json = False) -> None:
    """Count the low-rank components that L0 gates have kept.

    The counts are printed by layer.

    Example: weft show sparsity runs/gated
    """
    from weft.bundle.manifest import find_bundle

    find_bundle(bundle)
    from weft.bundle.load import load
    from weft.model.accounting.sparsity import sparsity as account

    model = load(bundle, encoder=encoder)
    counts = account(model)
    if not counts["all"]:
        raise WeftError(f"{bundle}: method {model.method.name!r} has no low-rank updates to count")
    if as_json:
        print_json(counts)
        return
    kinds = list(counts["all"])
    rows = [
        [name, *(_share(*layer_counts.get(kind, (0, 0))) for kind in kinds)]
        for name, layer_counts in [*counts["layers"].items(), ("all", counts["all"])]
    ]
    print_table(f"{bundle}: components kept", ["layer", *kinds], rows)


def _share(kept: int, total: int) -> str:
    return f"{kept:,} of {total:,} ({100 * kept / total:.0f}%)" if total else ""
