"""The keys of PEFT's rank_pattern and alpha_pattern: regular expressions for the end of a module's path.

PEFT matches `(.*\\.)?(KEY)$` with `re.match`. An adapter may come from a stranger, and a few characters such
as `(a+)+x` keep `re` busy for years. So a key is matched in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from weft.utils.linear_regex import LONGEST, PatternError, linear_pattern

_PLAIN = re.compile(r"[\w\-]+(\.[\w\-]+)*")
"""A path of names, as almost all keys are; a dot matches any character, as in PEFT."""


@lru_cache(maxsize=4096)
def module_pattern(key: str) -> Callable[[str], bool]:
    """Return whether a key matches the end of a module's path.

    Example:
        >>> module_pattern("attention.self.query")("encoder.layer.0.attention.self.query")
        True

    Raises:
        PatternError: the key is not a regular expression, or uses what cannot be matched in linear time.
    """
    pattern = rf"(.*\.)?({key})$"
    if len(key) <= LONGEST and _PLAIN.fullmatch(key):
        # no repetition and no alternatives: `re` has at most one way per position, and is much faster
        plain = re.compile(pattern)
        return lambda path: plain.match(path) is not None
    return linear_pattern(pattern).matches


__all__ = ["PatternError", "module_pattern"]
