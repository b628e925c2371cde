"""The primitive modules, one a file, each with its equation and its shapes."""

from weft.adapters.adapter import Adapter
from weft.adapters.bias import BiasAdapter
from weft.adapters.lora import LoraAdapter

__all__ = ["Adapter", "BiasAdapter", "LoraAdapter"]
