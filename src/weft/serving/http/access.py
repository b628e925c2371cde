"""Who may do what: API keys, web pages of other origins, and changes of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from weft.errors import words
from weft.serving.http.keys import check_key
from weft.serving.refused import Refused

if TYPE_CHECKING:
    from weft.serving.settings import ServeSettings

LOCAL = ("127.0.0.1", "localhost", "::1")
"""The names of this machine for itself."""


def check_access(scope: Mapping[str, Any], settings: ServeSettings, admin: bool) -> None:
    """Refuse a request whose sender may not send it.

    Args:
        scope: the ASGI scope of the request.
        settings: the keys, and the origins of web pages that may send requests.
        admin: whether the request changes tasks.
    """
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    if b"origin" in headers:
        check_origin(headers[b"origin"].decode("latin-1"), host, settings.cors)
    key = headers[b"authorization"].decode("latin-1") if b"authorization" in headers else None
    if not admin:
        if settings.keys:
            check_key(key, (*settings.keys, *settings.admin_keys))
    elif settings.admin_keys:
        check_key(key, settings.admin_keys)
    elif not (_is_loopback(scope.get("client")) and host_name(host) in LOCAL):
        raise Refused(
            "no_key",
            "without admin keys, tasks can be changed from the machine of the server alone, at localhost; "
            f"start it with {words('--admin-keys FILE', 'admin_keys=(KEY,)')}",
            headers={"WWW-Authenticate": "Bearer"},
        )


def check_origin(origin: str, host: str, allowed: tuple[str, ...]) -> None:
    """Refuse what a browser sends from a web page of another origin.

    CORS alone keeps such a page from reading the answer, but not from sending requests.

    Args:
        origin: the header `Origin`; only browsers send it.
        host: the header `Host`. A page of this server has the origin SCHEME://HOST.
        allowed: the origins that may send requests; `*` means any.
    """
    if "*" in allowed or origin in allowed or _netloc(origin) == host.lower():
        return
    raise Refused(
        "wrong_origin",
        f"web pages of {origin[:100]!r} may not send requests; if they should, start the server with "
        f"{words('--cors ORIGIN', 'cors=(ORIGIN,)')}; if this is the server's own page behind a proxy, let "
        "the proxy pass on the header Host",
    )


def host_name(host: str) -> str:
    """The name or address in a header `Host`, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_loopback(client: Any) -> bool:
    try:
        return ip_address(client[0]).is_loopback
    except (TypeError, ValueError, IndexError):
        return False
