"""Tests do not wait for the disk.

Flushing protects against a power failure, which no test simulates: what a killed process has written stays,
flushed or not. It takes milliseconds, and a tiny run flushes fifty times. tests/utils/test_files.py checks
what is flushed, and in which order.
"""

from __future__ import annotations

import os


def flush_nothing() -> None:
    """From now on, `os.fsync` does nothing in this process."""
    os.fsync = lambda handle: None
