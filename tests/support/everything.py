"""Imports that a process makes once, before it forks: each of its children then starts in milliseconds."""

from __future__ import annotations

import gc
import importlib
import pkgutil

LATE = (
    *("pyarrow.parquet", "rich.console", "rich.table", "rich.progress", "safetensors.torch"),
    *("scipy.stats", "scipy.cluster.hierarchy"),
    *("sklearn.linear_model", "sklearn.feature_extraction.text", "sklearn.multiclass"),
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    "transformers.models.bert.modeling_bert",
)
"""Modules of other packages that weft imports when it needs them."""


def import_everything(*more: str) -> None:
    """Import weft, what it imports late, and these modules."""
    import torch

    import weft

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not module.name.endswith(("__main__", "attention_triton")):
            importlib.import_module(module.name)
    for name in (*LATE, *more):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every child copies what a collection touches
