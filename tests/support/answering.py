"""A small HTTP server that gives prepared responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace


@contextmanager
def answering(*responses, port=0) -> Iterator[SimpleNamespace]:
    """A server with these responses, as (status, headers, body), one after the other; the last one stays."""
    seen = SimpleNamespace(paths=[], url="")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, body = responses[min(len(seen.paths), len(responses) - 1)]
            seen.paths.append(self.path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", port), Handler) as httpd:
        seen.url = f"http://127.0.0.1:{httpd.server_address[1]}"
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield seen
        finally:
            httpd.shutdown()
