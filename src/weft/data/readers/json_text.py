"""Parses the JSON of a whole file; a mistake is reported with its line."""

from __future__ import annotations

import json
from typing import Any

from weft.data.readers.problem import DataError, Problem, show


def parsed_json(source: str, whole: str, expected: str) -> Any:
    """Return the value of a JSON text.

    Args:
        source: the file, for messages.
        whole: its text.
        expected: what the file should hold, the end of a message.
    """
    try:
        return json.loads(whole)
    except json.JSONDecodeError as failed:
        rest = whole[failed.pos : failed.pos + 80]
        message = f"not JSON: {failed.msg} at character {failed.colno}, before {show(rest, 40)}; {expected}"
        raise DataError(Problem(source, message, failed.lineno, None, rest, "line")) from None
    except (ValueError, RecursionError) as failed:
        raise DataError(Problem(source, f"JSON that cannot be read ({failed}); {expected}")) from None
