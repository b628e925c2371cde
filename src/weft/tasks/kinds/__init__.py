"""The kinds of task, one per file. A new kind is one file and one line in `KINDS`."""

from weft.registry import Registry
from weft.tasks.kinds.kind import Kind

KINDS: Registry[type[Kind]] = Registry(
    "kind",
    {
        "choose": "weft.tasks.kinds.choose:Choose",
        "classify": "weft.tasks.kinds.classify:Classify",
        "marked": "weft.tasks.kinds.marked:Marked",
        "multilabel": "weft.tasks.kinds.multilabel:Multilabel",
        "rank": "weft.tasks.kinds.rank:Rank",
        "regress": "weft.tasks.kinds.regress:Regress",
        "similarity": "weft.tasks.kinds.similarity:Similarity",
        "span": "weft.tasks.kinds.span:Span",
        "tag": "weft.tasks.kinds.tag:Tag",
    },
)

__all__ = ["KINDS", "Kind"]
