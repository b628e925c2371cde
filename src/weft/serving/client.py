"""A client of `weft serve`, in plain Python: it needs neither torch nor a further package."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from weft.errors import WeftError


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


class Client:
    """Sends requests to a server. Several threads may share one client; each has its own connection.

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
    """

    def __init__(self, url: str = "http://localhost:8000", key: str | None = None, timeout: float = 60.0):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WeftError(f"url {url!r}: expected an address such as http://localhost:8000")
        self._parts, self._timeout = parts, timeout
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._local = threading.local()

    def predict(self, requests: Any, texts: Any = None, timeout_ms: float | None = None) -> Any:
        """Return the answers of the server's model, as `Model.predict` does.

        Args:
            requests: the name of a task; or a list of (task, text), without `texts`.
            texts: the texts of that task: one, or a list. A pair is a tuple; one with choices is
                (text, [choice, …]); a dict has the columns of the task's files.
            timeout_ms: milliseconds that the request may take.
        """
        if texts is None:
            listed = [_request(task, value) for task, value in requests]
        else:
            single = isinstance(texts, str | tuple | dict)
            listed = [_request(requests, value) for value in ([texts] if single else texts)]
        body: dict[str, Any] = {"requests": listed}
        if timeout_ms is not None:
            body["timeout_ms"] = timeout_ms
        answers = self._json("POST", "/v1/predict", body)["answers"] if listed else []
        return answers[0] if texts is not None and isinstance(texts, str | tuple | dict) else answers

    def predict_all(self, texts: Any, tasks: str | Sequence[str] = "all") -> Any:
        """Return the answers of many tasks for each text, by the name of the task.

        Args:
            texts: one text, a pair as a tuple, or a list of these.
            tasks: the names of the tasks, or `all`: every task that can read the text.
        """
        single = isinstance(texts, str | tuple | dict)
        names = tasks if tasks == "all" else [tasks] if isinstance(tasks, str) else list(tasks)
        listed = [{"tasks": names, **_fields(text)} for text in ([texts] if single else texts)]
        answers = self._json("POST", "/v1/predict", {"requests": listed})["answers"] if listed else []
        by_text = [answer["tasks"] for answer in answers]
        return by_text[0] if single else by_text

    def embed(self, texts: Any, task: str | None = None, normalize: bool = False) -> list[Any]:
        """Return one vector per text, as a list of numbers; for one text its vector alone."""
        body: dict[str, Any] = {"texts": [texts] if isinstance(texts, str) else list(texts)}
        body |= {"normalize": normalize} | ({} if task is None else {"task": task})
        vectors: list[Any] = self._json("POST", "/v1/embed", body)["embeddings"]
        return vectors[0] if isinstance(texts, str) else vectors

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks: kind, labels, inputs and an example request each."""
        tasks: list[dict[str, Any]] = self._json("GET", "/v1/tasks")["tasks"]
        return tasks

    def put_task(self, file: str | Path, name: str | None = None) -> dict[str, Any]:
        """Add or replace a task of a server that runs with --admin.

        Args:
            file: the task's file, `tasks/NAME.safetensors` of a bundle.
            name: the name of the task; by default that of the file.
        """
        path = Path(file)
        contents = path.read_bytes()
        answer: dict[str, Any] = self._json("PUT", f"/v1/tasks/{quote(name or path.stem, safe='')}", contents)
        return answer

    def remove_task(self, name: str) -> dict[str, Any]:
        """Remove a task of a server that runs with --admin."""
        answer: dict[str, Any] = self._json("DELETE", f"/v1/tasks/{quote(name, safe='')}")
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

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        status, headers, content = self._send(method, path, data)
        try:
            value = json.loads(content)
        except ValueError:
            raise ServerError(status, {"message": content[:200].decode("utf-8", "replace")}) from None
        if status >= 400:
            error = value.get("error", {}) if isinstance(value, dict) else {}
            raise ServerError(status, error, headers.get("Retry-After"))
        return value

    def _send(self, method: str, path: str, data: bytes | None) -> tuple[int, Any, bytes]:
        """Send a request; once more over a new connection if the server has closed the one kept open."""
        for last in (False, True):
            kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
            fresh = kept is None
            connection = self._local.connection = kept or self._connect()
            try:
                connection.request(method, self._parts.path.rstrip("/") + path, data, self._headers)
                response = connection.getresponse()
                return response.status, response.headers, response.read()
            except (OSError, http.client.HTTPException) as wrong:
                self.close()
                # an answer may be lost, so a request is repeated only if the kept connection was closed
                stale = isinstance(
                    wrong, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError
                )
                if last or fresh or not stale:
                    url = self._parts.geturl()
                    raise WeftError(
                        f"{url}: no answer from the server: {wrong or type(wrong).__name__}"
                    ) from None
        raise AssertionError

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def _request(task: str, value: Any) -> dict[str, Any]:
    return {"task": task, **_fields(value)}


def _fields(value: Any) -> dict[str, Any]:
    """The keys of one input: a dict has its own; `texts` with one entry takes any other form."""
    return dict(value) if isinstance(value, dict) else {"texts": [value]}
