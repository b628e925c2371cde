"""Refused: why a request gets no answer, as an HTTP status and a JSON body.

{"error": {"code": "bad_input", "where": "requests[3]", "message": "task 'rte' takes a pair of texts; …"}}
"""

from __future__ import annotations

import json
from typing import Any

STATUS = {
    "bad_json": 400,
    "bad_request": 400,
    "no_key": 401,
    "wrong_key": 403,
    "wrong_origin": 403,
    "not_found": 404,
    "unknown_task": 404,
    "not_allowed": 405,
    "too_slow": 408,
    "conflict": 409,
    "too_large": 413,
    "unsupported": 415,
    "bad_input": 422,
    "overloaded": 429,
    "headers_too_large": 431,
    "failed": 500,
    "not_ready": 503,
    "deadline": 504,
}
"""The HTTP status of each code."""


class Refused(Exception):
    """A request that gets an error instead of an answer.

    Args:
        code: one of `STATUS`.
        message: what was found and what was expected, in words for the client.
        where: the place in the request's body, such as `requests[3].text`; None: the request as a whole.
        headers: further HTTP headers, such as `Retry-After`.
    """

    def __init__(
        self, code: str, message: str, where: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.where = code, message, where
        self.headers = headers or {}

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]

    @property
    def body(self) -> bytes:
        """The JSON body of the response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.where is not None:
            error["where"] = self.where
        return json.dumps({"error": error}).encode()
