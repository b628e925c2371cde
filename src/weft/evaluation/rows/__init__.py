"""Row statistics of a run: what `weft compare` needs to know about every evaluated row, in a few kilobytes.

`collect` makes them beside an evaluation, `pack` and `unpack` turn them into bytes and back. No torch is
imported here.
"""

from weft.evaluation.rows.collect import collect_rows
from weft.evaluation.rows.pack import pack, unpack
from weft.evaluation.rows.run_rows import RunRows, SetRows

__all__ = ["RunRows", "SetRows", "collect_rows", "pack", "unpack"]
