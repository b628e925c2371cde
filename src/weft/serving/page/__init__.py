"""The web page at `/`: HTML, CSS and JavaScript modules, served as they are."""

from __future__ import annotations

from importlib.resources import files

MODULES = (
    *("answers", "batch_run", "batch_tab", "chart", "columns", "dom", "form", "marked_text", "prometheus"),
    *("server", "status_tab", "tables", "try_tab"),
)
"""The JavaScript modules that page.js imports."""
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    **{f"/page/{name}.js": (f"{name}.js", "text/javascript") for name in MODULES},
}
"""The file and the media type of each path."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""The headers of each file: no script, style or connection from anywhere else, and none inside the HTML."""


def read_page(path: str) -> tuple[bytes, str]:
    """Return the contents and the media type of a path of `PAGE`."""
    name, kind = PAGE[path]
    return files(__name__).joinpath(name).read_bytes(), kind
