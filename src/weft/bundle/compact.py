"""`weft compact`: write a bundle without its closed gates and the components behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.consistent import consistently
from weft.bundle.load import load
from weft.bundle.manifest import find_bundle
from weft.bundle.writing import writing_bundle
from weft.errors import WeftError, words

if TYPE_CHECKING:
    from weft.model.model import Model


@dataclass(frozen=True)
class Compacted:
    """The result of `compact_bundle`.

    Attributes:
        folder: the new bundle.
        parameters: the number of adapter parameters, before and after.
        bytes: the size of the whole bundle, before and after.
    """

    folder: Path
    parameters: tuple[int, int]
    bytes: tuple[int, int]

    def as_dict(self) -> dict[str, Any]:
        """The output of `weft compact --json`."""
        sizes = {"parameters_of_adapters": self.parameters, "bytes_of_the_bundle": self.bytes}
        pairs = {name: dict(zip(("before", "after"), pair, strict=True)) for name, pair in sizes.items()}
        return {"bundle": str(self.folder), **pairs}


def compact_bundle(bundle: str | Path, out: str | Path, *, encoder: Any = None) -> Compacted:
    """Write a bundle's compacted model (`Model.compact`) as a new bundle.

    Args:
        bundle: a bundle, or a run folder.
        out: the folder of the new bundle; not inside the old one, and not a parent of it.
        encoder: folder or hub id of the encoder, if it has moved.
    """
    source, target = find_bundle(bundle), Path(out)
    old, new = source.resolve(), target.resolve()
    if new == old or old in new.parents or new in old.parents:
        raise WeftError(
            f"{words('--out', 'out')} {out}: this overlaps the bundle {source}; pass a different folder"
        )
    with writing_bundle(target, words("weft compact", "compact_bundle")):
        model = load(bundle, encoder=encoder)
        small = model.compact()
        small.save(target)
        return Compacted(target, (_adapters(model), _adapters(small)), (_bytes(source), _bytes(target)))


def _adapters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.adapters.parameters())


def _bytes(folder: Path) -> int:
    return consistently(
        folder, lambda: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    )
