"""Methods whose adapters compute tables from their parameters, in small."""

from __future__ import annotations

SIZES = {"size": 4, "embedding": 5, "hidden": 6, "mixed": 7}
METHODS = {
    "road": "road",
    "ia3": "ia3",
    "poly": {"use": "poly", "rank": 3, "splits": 2},
    "reft": {"use": "reft", "rank": 3},
    "hyperformer": {"use": "hyperformer", **SIZES},
}
