"""Text files → checked splits → tokens in a memory-mapped cache → padded batches.

Nothing here imports torch before `collate` is called, so data can be checked without it.
"""

from weft.data.check import check
from weft.data.collate import collate
from weft.data.problem import DataError, Problem
from weft.data.read import read_rows
from weft.data.report import Facts, Finding, Report
from weft.data.source import Source
from weft.data.split import Split, collect_split, load_split
from weft.data.table import Table
from weft.data.tokens import Tokens, tokenise

__all__ = [
    "DataError",
    "Facts",
    "Finding",
    "Problem",
    "Report",
    "Source",
    "Split",
    "Table",
    "Tokens",
    "check",
    "collate",
    "collect_split",
    "load_split",
    "read_rows",
    "tokenise",
]
