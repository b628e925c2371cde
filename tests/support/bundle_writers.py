"""What processes do that write one bundle at once; for the fork server."""

from __future__ import annotations

import os


def copies(source: str, target: str, number: int, count: int) -> None:
    """Copy a task several times, under different names."""
    from weft.bundle.copy_task import copy_task

    code = 1
    try:
        for copy in range(count):
            copy_task(source, "a", target, rename=f"p{number}n{copy}")
        code = 0
    finally:
        os._exit(code)
