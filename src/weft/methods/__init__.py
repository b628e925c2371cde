"""The methods, one per file; most are papers expressed as compositions of adapters.

A new method is one file and one line in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.methods.method import Method
from weft.registry import Registry

if TYPE_CHECKING:
    from weft.methods.bitfit import Bitfit
    from weft.methods.ca_mtl import CaMtl
    from weft.methods.composed import Composed
    from weft.methods.dora import Dora
    from weft.methods.frozen import Frozen
    from weft.methods.full import Full
    from weft.methods.houlsby import Houlsby
    from weft.methods.houlsby_pals import HoulsbyPals
    from weft.methods.houlsby_parallel import HoulsbyParallel
    from weft.methods.hydra import Hydra
    from weft.methods.hyperformer import Hyperformer
    from weft.methods.ia3 import Ia3
    from weft.methods.lhuc import Lhuc
    from weft.methods.lora import Lora
    from weft.methods.lora_bitfit import LoraBitfit
    from weft.methods.lora_bitfit_mtl import LoraBitfitMtl
    from weft.methods.lora_xs import LoraXs
    from weft.methods.low_rank import LowRank
    from weft.methods.morris import Morris
    from weft.methods.mtl_lora import MtlLora
    from weft.methods.pals import Pals
    from weft.methods.pals_lhuc import PalsLhuc
    from weft.methods.poly import Poly
    from weft.methods.reft import Reft
    from weft.methods.road import Road
    from weft.methods.separate import Separate
    from weft.methods.task_norm import TaskNorm
    from weft.methods.top_attention import TopAttention
    from weft.methods.top_ffn import TopFfn
    from weft.methods.top_layer import TopLayer
    from weft.methods.vera import Vera

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "bitfit": "weft.methods.bitfit:Bitfit",
        "ca_mtl": "weft.methods.ca_mtl:CaMtl",
        "dora": "weft.methods.dora:Dora",
        "frozen": "weft.methods.frozen:Frozen",
        "full": "weft.methods.full:Full",
        "houlsby": "weft.methods.houlsby:Houlsby",
        "houlsby_pals": "weft.methods.houlsby_pals:HoulsbyPals",
        "houlsby_parallel": "weft.methods.houlsby_parallel:HoulsbyParallel",
        "hydra": "weft.methods.hydra:Hydra",
        "hyperformer": "weft.methods.hyperformer:Hyperformer",
        "ia3": "weft.methods.ia3:Ia3",
        "lhuc": "weft.methods.lhuc:Lhuc",
        "lora": "weft.methods.lora:Lora",
        "lora_bitfit": "weft.methods.lora_bitfit:LoraBitfit",
        "lora_bitfit_mtl": "weft.methods.lora_bitfit_mtl:LoraBitfitMtl",
        "lora_xs": "weft.methods.lora_xs:LoraXs",
        "low_rank": "weft.methods.low_rank:LowRank",
        "morris": "weft.methods.morris:Morris",
        "mtl_lora": "weft.methods.mtl_lora:MtlLora",
        "pals": "weft.methods.pals:Pals",
        "pals_lhuc": "weft.methods.pals_lhuc:PalsLhuc",
        "poly": "weft.methods.poly:Poly",
        "reft": "weft.methods.reft:Reft",
        "road": "weft.methods.road:Road",
        "separate": "weft.methods.separate:Separate",
        "task_norm": "weft.methods.task_norm:TaskNorm",
        "top_attention": "weft.methods.top_attention:TopAttention",
        "top_ffn": "weft.methods.top_ffn:TopFfn",
        "top_layer": "weft.methods.top_layer:TopLayer",
        "vera": "weft.methods.vera:Vera",
    },
)

__all__ = [
    "METHODS",
    "Bitfit",
    "CaMtl",
    "Composed",
    "Dora",
    "Frozen",
    "Full",
    "Houlsby",
    "HoulsbyPals",
    "HoulsbyParallel",
    "Hydra",
    "Hyperformer",
    "Ia3",
    "Lhuc",
    "Lora",
    "LoraBitfit",
    "LoraBitfitMtl",
    "LoraXs",
    "LowRank",
    "Method",
    "Morris",
    "MtlLora",
    "Pals",
    "PalsLhuc",
    "Poly",
    "Reft",
    "Road",
    "Separate",
    "TaskNorm",
    "TopAttention",
    "TopFfn",
    "TopLayer",
    "Vera",
    "build_method",
]


def build_method(spec: object) -> Method:
    """Build a method from the setting of a run file.

    Args:
        spec: a name (`lora`), settings (`{use: lora, rank: 4}`), a `Method`, or a list of these.
    """
    if isinstance(spec, Method):
        return spec
    if isinstance(spec, str):
        return METHODS[spec]()
    if isinstance(spec, Mapping):
        settings: dict[str, Any] = {str(k): v for k, v in spec.items()}
        if "use" not in settings:
            raise WeftError(f"method: {dict(spec)!r} lacks the key 'use', which names the method")
        return METHODS[str(settings.pop("use"))](**settings)
    if isinstance(spec, list | tuple):
        from weft.methods.composed import Composed

        methods = tuple(build_method(part) for part in spec)
        if len(methods) == 1:
            return methods[0]
        return Composed(methods=methods)
    raise WeftError(f"method: expected a name, settings with 'use', or a list of these; found {spec!r}")


def __getattr__(name: str) -> object:
    """The method classes by name (`weft.methods.Lora`), imported when first used."""
    if name == "Composed":
        from weft.methods.composed import Composed

        return Composed
    key = name.lower()
    if name[:1].isupper():
        for registered in METHODS:
            if registered.replace("_", "") == key:
                return METHODS[registered]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
