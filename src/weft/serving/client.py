"""A client of `weft serve`, in plain Python: it needs neither torch nor a further package."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.serving.client_calls import (
    AT_ONCE,
    UNKNOWN,
    Limits,
    check_key,
    check_numbers,
    encoded,
    end_of_portion,
    inputs_of,
    limits_of,
    names_of,
    path_of_task,
    place_in_call,
    read_address,
    read_task_file,
    request_of,
    requests_of,
    texts_to_embed,
)

PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before the first of several tries if the server names no time, and the most it may name."""


class ServerError(WeftError):
    """The server refused a request.

    Attributes:
        status: the HTTP status.
        code: the code of the error, such as `overloaded`.
        where: the place in the request, or None.
        retry_after: seconds after which to try again, or None.
    """

    def __init__(self, status: int, error: dict[str, Any], retry_after: str | None = None) -> None:
        where = error.get("where")
        self.status, self.code, self.where = status, error.get("code", "unknown"), where
        self.retry_after = int(retry_after) if retry_after and retry_after.isdecimal() else None
        place = f"{where}: " if where else ""
        super().__init__(f"the server answered {status} ({self.code}): {place}{error.get('message', '')}")


class _NobodyListens(WeftError):
    """The connection was refused, so nothing was sent."""


class Client:
    """Sends requests to a server. Several threads may share one client; each has its own connection.

    A call with more texts than the server takes at once is sent as several requests, one after the other.

    Example:
        >>> client = weft.Client("http://localhost:8000")
        >>> client.predict("sentiment", ["A wonderful film.", "Too long."])[0]["label"]
        'good'
        >>> client.predict_all("A wonderful film.")["topic"]["label"]
        'film'

    Args:
        url: the address of the server.
        key: an API key, if the server needs one.
        timeout: seconds to wait for an answer.
        retries: how often a request is sent again if the server has no room (429), is not ready (503) or does
            not accept connections. Before, the client waits as long as the server says (`Retry-After`), else
            0.5 seconds, then 1, 2, … up to 10. If the server names more than a minute, the error is raised.
    """

    def __init__(
        self,
        url: str = "http://localhost:8000",
        key: str | None = None,
        timeout: float = 60.0,
        retries: int = 0,
    ):
        self._address = read_address(url)
        check_numbers(timeout, retries)
        self._timeout, self._retries = timeout, retries
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            check_key(key)
            self._headers["Authorization"] = f"Bearer {key}"
        self._limits: Limits | None = None
        self._local = threading.local()

    def predict(self, requests: Any, texts: Any = None, timeout_ms: float | None = None) -> Any:
        """Return the answers of the server's model, as `Model.predict` does.

        Args:
            requests: the name of a task; or a list of (task, text), without `texts`.
            texts: the texts of that task: one, or a list. A tuple is one input: a pair of texts, or
                (text, [choice, …]); a dict has the columns of the task's files.
            timeout_ms: milliseconds that each request to the server may take.
        """
        listed, single = requests_of(requests, texts)
        name = "requests" if texts is None else "texts"
        entries = [encoded(entry, f"{name}[{number}]") for number, entry in enumerate(listed)]
        options = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        answers = self._answers("/v1/predict", "requests", entries, options, "answers")
        return answers[0] if single else answers

    def predict_all(self, texts: Any, tasks: str | Sequence[str] = "all") -> Any:
        """Return the answers of many tasks for each text, by the name of the task.

        Args:
            texts: one text, a pair as a tuple, or a list of these.
            tasks: the names of the tasks, or `all`: every task that can read the text.
        """
        listed, single = inputs_of(texts)
        names = names_of(tasks)
        entries = [
            encoded(request_of({"tasks": names}, text), f"texts[{n}]") for n, text in enumerate(listed)
        ]
        answers = self._answers("/v1/predict", "requests", entries, {}, "answers")
        by_text = [answer["tasks"] for answer in answers]
        return by_text[0] if single else by_text

    def embed(self, texts: Any, task: str | None = None, normalize: bool = False) -> list[Any]:
        """Return one vector per text, as a list of numbers; for one text its vector alone.

        Args:
            texts: a text, or texts and pairs of texts in a list. As in `Model.embed`, a tuple beside them is
                a list of texts too: `embed(("a", "b"))` returns two vectors, and `embed([("a", "b")])` the
                vector of a pair. In `predict`, `("a", "b")` is a pair.
            task: the task whose adapters are used; None: the encoder without adapters.
            normalize: whether to divide each vector by its norm.
        """
        entries = [encoded(text, f"texts[{number}]") for number, text in enumerate(texts_to_embed(texts))]
        options = {"normalize": normalize} | ({} if task is None else {"task": task})
        vectors = self._answers("/v1/embed", "texts", entries, options, "embeddings")
        return vectors[0] if isinstance(texts, str) else vectors

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks: kind, labels, inputs and an example request each."""
        tasks: list[dict[str, Any]] = self._part(self._json("GET", "/v1/tasks"), "tasks")
        return tasks

    def put_task(self, file: str | Path, name: str | None = None) -> dict[str, Any]:
        """Add or replace a task of a server that runs with --admin.

        Args:
            file: the task's file, `tasks/NAME.safetensors` of a bundle.
            name: the name of the task; by default that of the file.
        """
        own, contents = read_task_file(file)
        answer: dict[str, Any] = self._json("PUT", path_of_task(own if name is None else name), contents)
        return answer

    def remove_task(self, name: str) -> dict[str, Any]:
        """Remove a task of a server that runs with --admin."""
        answer: dict[str, Any] = self._json("DELETE", path_of_task(name))
        return answer

    def is_ready(self) -> bool:
        """Whether the server answers requests."""
        try:
            return self._send("GET", "/health/ready", None)[0] == 200
        except WeftError:
            return False

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _answers(
        self, path: str, key: str, entries: list[str], options: dict[str, Any], part: str
    ) -> list[Any]:
        """Send entries in portions that the server takes; returns what `part` of the responses has."""
        rest = "".join(f', "{name}": {encoded(value, name)}' for name, value in options.items())
        around = len(key) + len(rest) + 8
        if self._limits is None and end_of_portion(entries, 0, AT_ONCE, around) < len(entries):
            self._limits = self._read_limits()
        answers: list[Any] = []
        asked = False
        while len(answers) < len(entries):
            start = len(answers)
            end = end_of_portion(entries, start, self._limits or UNKNOWN, around)
            body = f'{{"{key}": [{", ".join(entries[start:end])}]{rest}}}'.encode()
            try:
                found = self._part(self._json("POST", path, body, start), part)
            except ServerError as wrong:
                # the limits were not known, or are lower since the server was started again
                if wrong.status != 413 or end - start == 1 or asked:
                    raise
                self._limits, asked = self._read_limits(), True
                if end_of_portion(entries, start, self._limits, around) == end:
                    raise
                continue
            if not isinstance(found, list) or len(found) != end - start:
                raise self._strange(f"{end - start} {part}", found)
            answers += found
        return answers

    def _read_limits(self) -> Limits:
        try:
            return limits_of(self._json("GET", "/v1/tasks"))
        except ServerError as wrong:
            if wrong.status not in (404, 405):  # a proxy may pass on some of the paths alone
                raise
            return UNKNOWN

    def _part(self, answer: Any, name: str) -> Any:
        if not isinstance(answer, dict) or name not in answer:
            raise self._strange(repr(name), answer)
        return answer[name]

    def _strange(self, expected: str, found: Any) -> WeftError:
        text = json.dumps(found)
        short = text if len(text) <= 200 else text[:200] + "…"
        url = self._address.url
        return WeftError(f"{url}: expected {expected} of a server of weft; found {short}; check the address")

    def _json(self, method: str, path: str, body: bytes | None = None, first: int = 0) -> Any:
        """Send a request, as often as `retries` allows, and return the value of the response.

        Args:
            method: the method.
            path: the path.
            body: the body.
            first: how many entries of the call were sent before this request.
        """
        for tries in range(self._retries + 1):
            try:
                return self._once(method, path, body, first)
            except (ServerError, _NobodyListens) as wrong:
                pause = _pause_after(wrong, tries)
                if tries == self._retries or pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError

    def _once(self, method: str, path: str, body: bytes | None, first: int) -> Any:
        status, headers, content = self._send(method, path, body)
        after = headers.get("Retry-After")
        beginning = {"message": content[:200].decode("utf-8", "replace")}
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            raise ServerError(status, beginning, after) from None
        if status < 300:
            return value
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict):
            error = beginning
        if isinstance(error.get("where"), str):
            error["where"] = place_in_call(error["where"], first)
        raise ServerError(status, error, after)

    def _send(self, method: str, path: str, data: bytes | None) -> tuple[int, Any, bytes]:
        """Send a request; once more over a new connection if the server has closed the one kept open."""
        for last in (False, True):
            kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
            fresh = kept is None
            connection = self._local.connection = kept or self._connect()
            try:
                connection.request(method, self._address.prefix + path, data, self._headers)
                response = connection.getresponse()
                return response.status, response.headers, response.read()
            except (OSError, http.client.HTTPException) as wrong:
                self.close()
                # an answer may be lost, so a request is repeated only if the kept connection was closed
                stale = isinstance(
                    wrong, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError
                )
                if last or fresh or not stale:
                    kind = _NobodyListens if isinstance(wrong, ConnectionRefusedError) else WeftError
                    reason = str(wrong) or type(wrong).__name__
                    raise kind(f"{self._address.url}: no answer from the server: {reason}") from None
        raise AssertionError

    def _connect(self) -> http.client.HTTPConnection:
        _, scheme, host, port, _ = self._address
        if scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def _pause_after(error: WeftError, tries: int) -> float | None:
    """Seconds before the next try; None if there should be none."""
    seconds = min(PAUSE * 2 ** min(tries, 10), 10.0)
    if isinstance(error, ServerError):
        if error.status not in (429, 503):
            return None
        seconds = seconds if error.retry_after is None else float(error.retry_after)
    # clients that were refused together should not come back together
    return seconds * random.uniform(1.0, 1.1) if seconds <= LONGEST_PAUSE else None
