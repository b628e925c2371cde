"""The base classes of low-rank methods: a rank, ranks by site, and gates that find ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from weft.core.gate_settings import L0, L0_ABOUT, L0Setting
from weft.encoder.sites import BLOCK_MAPS, BLOCK_NORM, SiteKinds, parse_layers
from weft.errors import WeftError, did_you_mean
from weft.methods.method import LAYERS, MORRIS_TASKS, ROUND_BERT_BASE, Layers, Method, Miscount

if TYPE_CHECKING:
    from weft.encoder.sites import Site, Sites

Biases = Literal["dense", "all", "none"]
"""The biases of the blocks: of the dense maps, of the two norms too, or none."""

BIASES: dict[str, tuple[str, ...]] = {"dense": BLOCK_MAPS, "all": (*BLOCK_MAPS, *BLOCK_NORM), "none": ()}

BIASES_ABOUT = "the biases that are updated: of the dense maps, all (of the norms too), or none"

PATTERN_ABOUT = "ranks that differ, by site ({0/query: 3}); 0 leaves the site out"


class RankedSites(Method):
    """A method that updates linear maps, each update with a rank."""

    adds = True
    rank: PositiveInt = Field(8, description="r, the rank of every update")
    sites: SiteKinds = Field(("query", "value"), description="the linear maps that are updated")
    layers: Layers = Field("all", description=LAYERS)
    rank_pattern: dict[str, NonNegativeInt] = Field({}, description=PATTERN_ABOUT)

    def ranked_sites(self, sites: Sites) -> list[tuple[Site, int]]:
        """The linear maps that are updated, each with its rank."""
        return by_rank(sites.select(self.sites, self.layers), self.rank, self.rank_pattern, "rank_pattern")

    def component_sets(self, tasks: Sequence[str]) -> int:
        """Return how many sets of components a site has: 1, or one per slot if components are not shared."""
        return 1


class RankMethod(RankedSites):
    """A method whose updates of linear maps have a rank, which gates can find."""

    paper_basis = ROUND_BERT_BASE
    counted_tasks = MORRIS_TASKS
    l0: L0Setting = Field(None, description=L0_ABOUT)

    def with_ranks(self, patterns: Sequence[Mapping[str, Mapping[str, int]]]) -> Method:
        """See `Method`: a site that is not named keeps its rank."""
        (pattern,) = patterns
        changed = {}
        for setting, ranks in pattern.items():
            full = getattr(self, setting.removesuffix("_pattern"))
            kept = {**getattr(self, setting), **ranks}
            changed[setting] = {key: rank for key, rank in kept.items() if rank != full}
        return type(self)(**{**self.model_dump(), **changed, "l0": None})


A3 = "its formula (A.3) takes each of the 8 biases of a block for 768 wide; that of FFN-1 has 3,072"


def a3_miscount(columns: int, biases: str, layers: Layers, num_layers: int) -> Miscount | None:
    """Return what MORRIS's formula for the number of parameters leaves out on BERT-base, if it applies.

    Args:
        columns: the number of vectors per bias, over all tasks.
        biases: the method's setting; the formula is for `all`.
        layers: the method's setting.
        num_layers: the encoder's number of layers.
    """
    if biases != "all" or parse_layers(layers, num_layers) != list(range(num_layers)):
        return None
    return Miscount(-num_layers * columns * (3072 - 768), A3)


def by_rank(
    chosen: Sequence[Site], rank: int, pattern: Mapping[str, int], setting: str
) -> list[tuple[Site, int]]:
    """Return each site with its rank, without the sites of rank 0.

    Args:
        chosen: the sites that a method updates.
        rank: the rank of sites that the pattern does not name.
        pattern: ranks by the sites' keys.
        setting: the pattern's name, for messages.
    """
    keys = [site.key for site in chosen]
    for key in pattern:
        if key not in keys:
            raise WeftError(f"{setting} names the site {key!r}; {did_you_mean(key, keys)}")
    ranks = [(site, pattern.get(site.key, rank)) for site in chosen]
    return [(site, r) for site, r in ranks if r]


def l0_of(method: Method) -> L0 | None:
    """Return the settings of a method's gates; parts of a composition must agree on the phases."""
    settings: list[L0] = [l0 for part in method.parts if (l0 := getattr(part, "l0", None)) is not None]
    for other in settings[1:]:
        for key in ("steps", "lr", "gate_lr"):
            first, second = getattr(settings[0], key), getattr(other, key)
            if first != second:
                raise WeftError(
                    f"method: two parts have different l0.{key}, {first} and {second}; give them one"
                )
    return settings[0] if settings else None
