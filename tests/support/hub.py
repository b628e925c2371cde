"""A stand-in for the Hugging Face hub: a real HTTP server that speaks the few endpoints that weft uses.

The client is huggingface_hub itself, addressed by its own settings (HF_ENDPOINT and others). The server keeps
repositories in memory as a list of commits, large files as LFS objects behind a redirect, as the hub does it,
and records every request with the bytes that it sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.hub_client import card_problems
from tests.support.hub_state import READER, TOKEN, StoredRepository

LFS_FROM = 600
"""Files from this size on are LFS objects, and so are all safetensors."""


@dataclass(frozen=True)
class Seen:
    """A request: its method and path, and how many bytes of a file the answer had."""

    method: str
    path: str
    sent: int
    file: str | None = None


class StandIn:
    """The server's state. `address` is its URL; `seen` are the requests since `forget`."""

    def __init__(self) -> None:
        self.repositories: dict[str, StoredRepository] = {}
        self.objects: dict[str, bytes] = {}
        self.seen: list[Seen] = []
        self.before_commit: Callable[[], object] | None = None
        """What happens in the repository just before the next commit is stored."""
        self.broken = False
        """Whether every request is answered with status 500."""
        state = self

        class Handler(_Handler):
            hub = state

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        port = self.server.server_address[1]
        self.address = f"http://127.0.0.1:{port}"
        self.storage = f"http://localhost:{port}"
        """Where large files are: a host of another name, as the hub has one."""

    def clear(self) -> None:
        """Forget everything."""
        self.repositories.clear()
        self.objects.clear()
        self.seen.clear()
        self.before_commit, self.broken = None, False

    def forget(self) -> None:
        """Forget the requests up to now."""
        self.seen.clear()

    def fetched(self) -> dict[str, int]:
        """The files whose contents were sent, with the bytes of each."""
        sums: dict[str, int] = {}
        for seen in self.seen:
            if seen.method == "GET" and seen.file is not None:
                sums[seen.file] = sums.get(seen.file, 0) + seen.sent
        return sums

    def put(self, name: str, files: Mapping[str, bytes]) -> StoredRepository:
        """Store a repository as somebody could have made it in any way."""
        repository = self.repositories.setdefault(name, StoredRepository())
        repository.commit("main", files, "by hand")
        return repository


class _Handler(BaseHTTPRequestHandler):
    hub: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    # --- answers

    def _send(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, file=None):
        sent = len(body) if self.command != "HEAD" else 0
        self.hub.seen.append(Seen(self.command, self.path, sent, file))  # before the client knows the answer
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body[:sent])

    def _json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self._send(status, data, {"Content-Type": "application/json", **(headers or {})})

    def _error(self, status: int, code: str = "", message: str = "refused") -> None:
        headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}
        self._json({"error": message}, status, headers)

    # --- requests

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    @property
    def _account(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    def _answer(self) -> None:
        body = self._body()
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        if self.hub.broken:
            self._error(500, message="out of order")
            return
        if self._account not in (None, TOKEN, READER):
            self._error(401, message="Invalid credentials in Authorization header")
            return
        match parts:
            case ["api", "repos", "create"]:
                self._create(json.loads(body))
                return
            case ["api", "validate-yaml"]:
                self._validate(json.loads(body))
                return
            case ["objects", oid] if self.command == "PUT":
                self.hub.objects[oid] = body
                self._send(200, b"", {"ETag": f'"{oid}"'})
                return
            case ["objects", oid, *rest]:
                self._send(200, self.hub.objects[oid], {"ETag": f'"{oid}"'}, file="/".join(rest))
                return
            case [owner, name, "info", "lfs", "objects", "batch"]:
                self._batch(f"{owner}/{name.removesuffix('.git')}", json.loads(body))
                return
            case ["api", "models", owner, name, *rest]:
                self._api(f"{owner}/{name}", rest, body, parse_qs(url.query))
                return
            case [owner, name, "resolve", revision, *path]:
                self._resolve(f"{owner}/{name}", revision, "/".join(path))
                return
        self._error(404)
        return

    def _readable(self, name: str) -> StoredRepository | None:
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and self._account is None):
            # as the hub: a stranger does not learn whether it exists
            self._error(401 if self._account is None else 404, "RepoNotFound", "Repository not found")
            return None
        return repository

    def _may_write(self, name: str) -> bool:
        if self._account is None:
            self._error(401, message="Invalid username or password.")
        elif self._account != TOKEN or not name.startswith("anna/"):
            self._error(403, message="You don't have the rights to write there")
        else:
            return True
        return False

    def _create(self, request: dict) -> None:
        name = f"{request.get('organization') or 'anna'}/{request['name']}"
        if not self._may_write(name):
            return
        if name in self.hub.repositories:
            self._json({"url": f"{self.hub.address}/{name}", "error": "exists"}, 409)
            return
        private = request.get("visibility") == "private" or bool(request.get("private"))
        repository = self.hub.repositories[name] = StoredRepository(private)
        repository.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")
        self._json({"url": f"{self.hub.address}/{name}", "name": name})

    def _validate(self, request: dict) -> None:
        errors = [{"message": problem} for problem in card_problems(request["content"])]
        self._json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def _batch(self, name: str, request: dict) -> None:
        if not self._may_write(name):
            return
        objects = []
        for wanted in request["objects"]:
            entry = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.hub.objects:
                entry["actions"] = {"upload": {"href": f"{self.hub.address}/objects/{wanted['oid']}"}}
            objects.append(entry)
        self._json({"transfer": "basic", "objects": objects})

    def _api(self, name: str, rest: list[str], body: bytes, query: Mapping[str, list[str]]) -> None:
        repository = self._readable(name)
        if repository is None:
            return
        match rest:
            case [] | ["revision", *_]:
                self._info(name, repository, "/".join(rest[1:]) or "main", "blobs" in query)
                return
        if not self._may_write(name):
            return
        match rest:
            case ["branch", branch]:
                if branch in repository.branches:
                    self._error(409, message="it exists")
                    return
                repository.branches[branch] = repository.branches["main"]
                self._json({})
                return
            case ["preupload", *_]:
                self._json({"files": [self._mode(file) for file in json.loads(body)["files"]]})
                return
            case ["commit", *revision]:
                self._commit(name, repository, "/".join(revision), body)
                return
        self._error(404)

    @staticmethod
    def _mode(file: dict) -> dict:
        large = file["size"] >= LFS_FROM and file["path"] != "README.md"
        lfs = large or file["path"].endswith(".safetensors")
        return {"path": file["path"], "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}

    def _info(self, name: str, repository: StoredRepository, revision: str, sizes: bool) -> None:
        sha = repository.resolve(revision)
        if sha is None:
            self._error(404, "RevisionNotFound", "Invalid rev id")
            return
        files = [{"rfilename": path} for path in repository.commits[sha]]
        for file in files if sizes else ():
            file["size"] = len(repository.commits[sha][file["rfilename"]])  # type: ignore[assignment]
        listed = {"id": name, "modelId": name, "sha": sha, "private": repository.private, "tags": []}
        self._json({**listed, "downloads": 0, "siblings": files})

    def _commit(self, name: str, repository: StoredRepository, revision: str, body: bytes) -> None:
        if self.hub.before_commit is not None:
            self.hub.before_commit()
        sha = repository.resolve(revision)
        if sha is None:
            self._error(404, "RevisionNotFound", "Invalid rev id")
            return
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        files, message = dict(repository.commits[sha]), ""
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                message = value["summary"]
                if value.get("parentCommit") not in (None, sha):
                    self._error(412, message="A commit has happened since")
                    return
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            else:
                files.pop(value["path"])
        new = repository.commit(revision, files, message)
        url = f"{self.hub.address}/{name}/commit/{new}"
        self._json({"commitUrl": url, "commitOid": new, "success": True})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        repository = self._readable(name)
        if repository is None:
            return
        sha = repository.resolve(revision)
        if sha is None:
            self._error(404, "RevisionNotFound", "Invalid rev id")
            return
        data = repository.commits[sha].get(path)
        if data is None:
            self._error(404, "EntryNotFound", "Entry not found")
            return
        headers = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if path.endswith(".safetensors"):
            oid = hashlib.sha256(data).hexdigest()
            self.hub.objects[oid] = data
            linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(data))}
            location = f"{self.hub.storage}/objects/{oid}/{path}"
            self._send(302, b"", {**headers, **linked, "Location": location})
            return
        etag = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        self._send(200, data, {**headers, "ETag": f'"{etag}"'}, file=path)


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """A running server."""
    hub = StandIn()
    thread = threading.Thread(target=hub.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()
        thread.join()
