"""What the arguments of a client mean, and the portions in which texts are sent, in plain Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from weft.errors import WeftError

LONGEST = 86_400.0
"""The longest time to wait for an answer, in seconds."""

PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """The address of a server.

    Attributes:
        url: as it was given, for messages.
        scheme: `http` or `https`.
        host: its name or IP address.
        port: its port.
        prefix: what the paths begin with, if the server is behind a proxy; else empty.
    """

    url: str
    scheme: str
    host: str
    port: int
    prefix: str


def read_address(url: Any) -> Address:
    """Check the address of a server."""
    expected = "expected an address such as http://localhost:8000"
    if not isinstance(url, str):
        raise WeftError(f"url: found {shown(url)}; {expected}")
    if "@" in url.partition("://")[2].partition("/")[0]:  # not shown: it may be a password
        raise WeftError(
            f"url: found a name or password before '@'; {expected}; an API key is passed as key=…"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as for a connection; a label of a name has 1 to 63 characters
    except ValueError as wrong:
        raise WeftError(f"url {url!r}: {wrong}; {expected}") from None
    if parts.scheme not in PORTS or not host or not host.isprintable() or " " in host:
        raise WeftError(f"url {url!r}: {expected}")
    if port == 0:
        raise WeftError(f"url {url!r}: port 0 means any free port to a server; {expected}")
    if parts.query or parts.fragment:
        raise WeftError(f"url {url!r}: found a query or fragment after the path; {expected}")
    prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    return Address(url, parts.scheme, host, port or PORTS[parts.scheme], prefix)


def check_key(key: Any) -> None:
    """Check an API key; messages never show it."""
    expected = "expected visible ASCII characters, as `openssl rand -hex 32` prints (the key is not shown)"
    if not isinstance(key, str):
        raise WeftError(f"key: found a value of type {type(key).__name__}; {expected}")
    if not key:
        raise WeftError(f"key: found an empty text; {expected}; leave it out if the server needs no key")
    for place, character in enumerate(key, 1):
        if not "!" <= character <= "~":
            names = {"\n": "a line end", "\r": "a line end", " ": "a space", "\t": "a tab"}
            kind = "a control character" if character.isascii() else "a character outside ASCII"
            found = names.get(character, kind)
            raise WeftError(f"key: found {found} as character {place} of {len(key)}; {expected}")


def check_numbers(timeout: Any, retries: Any) -> None:
    """Check `timeout` and `retries` of a client."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout <= LONGEST):
        raise WeftError(
            f"timeout: expected seconds, more than 0 and at most {LONGEST:,.0f}; found {timeout!r}"
        )
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise WeftError(f"retries: expected a whole number, 0 or more; found {retries!r}")


def requests_of(requests: Any, texts: Any) -> tuple[list[dict[str, Any]], bool]:
    """Return the requests of a call of `predict`, and whether it asks for one answer, not for a list."""
    if texts is not None:
        if not isinstance(requests, str):
            raise WeftError(f"requests: expected the name of a task; found {shown(requests)}; {_FORMS}")
        values, single = inputs_of(texts)
        return [request_of({"task": requests}, value) for value in values], single
    if isinstance(requests, str | Mapping):
        found = f"{shown(requests)} without texts" if isinstance(requests, str) else shown(requests)
        raise WeftError(f"requests: expected a list of (task, text); found {found}; {_FORMS}")
    entries = _listed(requests, "requests", "a list of (task, text)")
    for number, entry in enumerate(entries):
        if not isinstance(entry, list | tuple) or len(entry) != 2 or not isinstance(entry[0], str):
            where = f"requests[{number}]"
            raise WeftError(f"{where}: expected (task, text); found {shown(entry)}; {_FORMS}")
    return [request_of({"task": task}, value) for task, value in entries], False


def inputs_of(texts: Any) -> tuple[list[Any], bool]:
    """Return the inputs of a call, and whether it is one input: a text, a tuple or a dict."""
    if isinstance(texts, str | tuple | Mapping):
        return [texts], True
    return _listed(texts, "texts", "a text or a list of texts"), False


def request_of(tasks: dict[str, Any], value: Any) -> dict[str, Any]:
    """One entry of `requests`: a dict has the keys of one input; `texts` with one entry takes any other form.

    Args:
        tasks: `task` or `tasks`. A column of the same name does not replace it.
        value: the input.
    """
    plain = isinstance(value, Mapping) and "texts" not in value
    return {**value, **tasks} if plain else {**tasks, "texts": [value]}


def texts_to_embed(texts: Any) -> list[Any]:
    """The texts of a call of `embed`; a tuple is a list of texts."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, Mapping):
        raise WeftError(f"texts: expected a list of texts or pairs of texts; found {shown(texts)}")
    return _listed(texts, "texts", "a text or a list of texts")


def names_of(tasks: Any) -> Any:
    """The tasks of a call of `predict_all`, as the server reads them."""
    if isinstance(tasks, str):
        return tasks if tasks == "all" else [tasks]
    return _listed(tasks, "tasks", "'all' or a list of names")


def read_task_file(file: Any) -> tuple[str, bytes]:
    """Return the name of a task's file, without its ending, and its contents."""
    expected = "expected the file of a task, such as runs/first/bundle/tasks/NAME.safetensors"
    if not isinstance(file, str | Path):
        raise WeftError(f"file: found {shown(file)}; {expected}")
    try:
        return Path(file).stem, Path(file).read_bytes()
    except (OSError, ValueError) as wrong:
        reason = getattr(wrong, "strerror", None) or wrong
        raise WeftError(f"file {str(file)!r}: cannot be read: {reason}; {expected}") from None


def path_of_task(name: Any) -> str:
    """The path of a task."""
    if not isinstance(name, str) or not name:
        raise WeftError(f"name: expected the name of a task; found {shown(name)}")
    return f"/v1/tasks/{quote(name, safe='', errors='replace')}"


def encoded(value: Any, where: str) -> str:
    """A value as JSON, in ASCII; an error names its place."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise WeftError(
            f"{where}: cannot be sent as JSON: {wrong}; expected texts, numbers, and lists and dicts of them"
        ) from None


class Limits(NamedTuple):
    """What a server takes at once.

    Attributes:
        texts: the most texts of a request.
        body_bytes: the most bytes of its body.
    """

    texts: int
    body_bytes: int


AT_ONCE = Limits(32, 1 << 16)
"""So much is sent without asking for the server's limits."""
UNKNOWN = Limits(256, 1 << 20)
"""The limits of a server that does not tell them."""


def limits_of(answer: Any) -> Limits:
    """The limits that `GET /v1/tasks` tells."""
    told = answer.get("limits") if isinstance(answer, dict) else None
    told = told if isinstance(told, dict) else {}
    values = {name: told.get(name) for name in Limits._fields}
    return UNKNOWN._replace(**{name: n for name, n in values.items() if isinstance(n, int) and n > 0})


def end_of_portion(entries: Sequence[str], start: int, limits: Limits, around: int) -> int:
    """Where the portion that begins at `start` ends; it has at least one entry.

    Args:
        entries: JSON in ASCII.
        start: its first entry.
        limits: what the server takes at once.
        around: the bytes of the body beside the entries.
    """
    size, end = around, start
    while end < len(entries) and end - start < limits.texts:
        size += len(entries[end]) + 2  # a comma and a space
        if size > limits.body_bytes and end > start:
            break
        end += 1
    return end


def place_in_call(where: str, first: int) -> str:
    """A place in a portion as a place in the call: `requests[3]` is that of the entry `first` + 3."""
    return re.sub(r"^(requests|texts)\[(\d+)\]", lambda m: f"{m[1]}[{first + int(m[2])}]", where)


_FORMS = (
    "write client.predict('TASK', 'text'), client.predict('TASK', ['text 1', …]) or "
    "client.predict([('TASK', 'text 1'), …])"
)


def _listed(values: Any, name: str, expected: str) -> list[Any]:
    """Values as a list; those of a numpy array or an Arrow column or table as Python values."""
    if not isinstance(values, Sequence):
        if hasattr(values, "to_pylist"):
            return list(values.to_pylist())
        if hasattr(values, "columns"):
            raise WeftError(
                f"{name}: expected {expected}; found a data frame; pass a column of it, or its rows as a "
                "list of dicts: df.to_dict('records')"
            )
        if hasattr(values, "tolist"):
            values = values.tolist()
    if not isinstance(values, Iterable) or isinstance(values, bytes):
        raise WeftError(f"{name}: expected {expected}; found {shown(values)}")
    return list(values)
