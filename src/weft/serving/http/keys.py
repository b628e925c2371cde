"""API keys: who may send requests, and who may change tasks."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from pathlib import Path

from weft.errors import WeftError
from weft.serving.refused import Refused

KEYS, ADMIN_KEYS = "WEFT_API_KEYS", "WEFT_ADMIN_KEYS"
"""The environment variables with keys, separated by commas or white space."""
SHORTEST = 16


def read_keys(option: str, file: Path | None, variable: str) -> tuple[str, ...]:
    """Read keys from a file, one per line, and from an environment variable.

    Args:
        option: the option that named the file, for messages.
        file: the file; None: no file. Empty lines and lines that begin with # are skipped.
        variable: the environment variable.
    """
    keys = os.environ.get(variable, "").replace(",", " ").split()
    if variable in os.environ and not keys:
        raise WeftError(
            f"the environment variable {variable} is set and holds no key; expected keys, separated by "
            "commas; to serve without keys, unset it"
        )
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as wrong:
            reason = getattr(wrong, "strerror", None) or wrong
            raise WeftError(f"{option} {file}: cannot be read: {reason}") from None
        found = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not found:
            raise WeftError(f"{option} {file}: expected one key per line; found none")
        keys += found
    for key in keys:
        if len(key) < SHORTEST or not key.isascii() or any(c.isspace() for c in key):
            where = f"{option} {file}" if file is not None else f"the environment variable {variable}"
            raise WeftError(
                f"{where}: a key has {len(key)} characters; expected at least {SHORTEST} ASCII characters "
                "without spaces, such as the output of: openssl rand -hex 32"
            )
    return tuple(dict.fromkeys(keys))


def check_key(header: str | None, keys: Iterable[str]) -> None:
    """Refuse a request without a valid key; nothing is checked if there are no keys.

    Args:
        header: the request's `Authorization` header, `Bearer KEY`.
        keys: the valid keys. All are compared, in constant time: the time says nothing about them.
    """
    keys = list(keys)
    if not keys:
        return
    scheme, _, key = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise Refused(
            "no_key",
            "this server needs an API key: send the header 'Authorization: Bearer KEY'",
            headers={"WWW-Authenticate": "Bearer"},
        )
    matches = [hmac.compare_digest(key.strip().encode(), valid.encode()) for valid in keys]
    if not any(matches):
        raise Refused("wrong_key", "this API key is not valid here")
