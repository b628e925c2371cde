"""The kinds of task, one a file. A new kind is one file and one line in `KINDS`."""

from weft.registry import Registry
from weft.tasks.kinds.kind import Kind

KINDS: Registry[type[Kind]] = Registry(
    "kind",
    {
        "classify": "weft.tasks.kinds.classify:Classify",
        "regress": "weft.tasks.kinds.regress:Regress",
    },
)

__all__ = ["KINDS", "Kind"]
