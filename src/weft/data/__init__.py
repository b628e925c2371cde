"""Data: text files → checked splits → tokens in a memory-mapped cache → padded batches.

torch is imported only when `collate` is called, so data can be checked without it.
"""

from weft.data.batching.collate import collate
from weft.data.checks.check import check
from weft.data.checks.report import Facts, Finding, Report
from weft.data.readers.problem import DataError, Problem
from weft.data.readers.read import read_rows
from weft.data.readers.source import Source
from weft.data.readers.table import Table
from weft.data.splits.split import Split, collect_split, load_split
from weft.data.tokens.tokens import Tokens, tokenize

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
    "tokenize",
]
