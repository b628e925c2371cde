"""Serving: one HTTP server for all tasks of a bundle. Start it with `weft serve`, or by `app` below.

Example:
    >>> from weft.serving import app
    >>> application = app("runs/first")      # an ASGI application; any ASGI server runs it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.serving.http.application import App

__all__ = ["app"]


def app(bundle: Any, **settings: Any) -> App:
    """Make the ASGI application of a bundle; see `weft.serving.http.application.app`.

    Args:
        bundle: the folder of a bundle or of a run, or a `Model`.
        settings: as in `weft.serving.settings.ServeSettings`.
    """
    from weft.serving.http.application import app as build

    return build(bundle, **settings)
