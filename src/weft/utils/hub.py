"""The Hugging Face hub: whether it can be reached, and reading from its cache if it cannot.

huggingface_hub repeats a request for about a minute before it gives up. weft tries one connection first,
which takes milliseconds on a working network. No torch is imported.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SECONDS = 2.0
"""How long a connection may take. A time-out of the connection only: downloads may be slow."""
VARIABLE = "WEFT_HUB_SECONDS"
"""The environment variable that replaces `SECONDS`."""
REMEMBERED = 60.0
"""For how many seconds an answer is used again."""

_answers: dict[str, tuple[float, str | None]] = {}


def hub_problem() -> str | None:
    """Return why the hub cannot be reached, or None if it can be."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    endpoint: str = constants.ENDPOINT
    now = time.monotonic()
    when, problem = _answers.get(endpoint, (-REMEMBERED, None))
    if now - when >= REMEMBERED:
        problem = _try(endpoint)
        _answers[endpoint] = now, problem
    return problem


@contextmanager
def offline_if(problem: str | None) -> Iterator[None]:
    """Inside, Hugging Face's packages read only from their caches, if there is a problem with the hub."""
    if problem is None:
        yield
        return
    from huggingface_hub import constants

    settings = [(constants, "HF_HUB_OFFLINE")]
    if "datasets" in sys.modules and hasattr(sys.modules["datasets"], "config"):
        config = sys.modules["datasets"].config
        settings += [(config, name) for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")]
    before = [(place, name, getattr(place, name)) for place, name in settings if hasattr(place, name)]
    for place, name, _ in before:
        setattr(place, name, True)
    try:
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


@contextmanager
def progress_bars(on: bool) -> Iterator[None]:
    """Inside, huggingface_hub shows no bars of downloads and uploads, unless they are on."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    change = not on and not are_progress_bars_disabled()
    if change:
        disable_progress_bars()
    try:
        yield
    finally:
        if change:
            enable_progress_bars()


def model_in_cache(name: str) -> bool:
    """Return whether the cache holds files of a model."""
    return cached_config(name) is not None


def cached_config(name: str) -> Path | None:
    """Return the path of a model's config.json in the cache; None if the cache does not have it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        file = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # not an id
        return None
    return Path(file) if isinstance(file, str) else None


def data_set_in_cache(name: str) -> bool:
    """Return whether the cache of the package `datasets` may hold a data set, by the names of its folders."""
    from huggingface_hub import constants

    folder = Path(os.environ.get("HF_DATASETS_CACHE", Path(constants.HF_HOME) / "datasets"))
    if not folder.is_dir():
        return False
    owner, _, rest = name.lower().partition("/")
    # `glue/cola` may be in `glue` or, under the owner that it has now, in `nyu-mll___glue`
    known = (owner, f"{owner}___{rest.partition('/')[0]}")
    return any(
        entry.name.lower() in known or entry.name.lower().endswith(f"___{owner}")
        for entry in folder.iterdir()
    )


def _try(endpoint: str) -> str | None:
    """Open one connection to the hub, or to the proxy on the way to it; return why that failed."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    proxy = getproxies().get(parts.scheme) or getproxies().get("all")
    if proxy and not proxy_bypass(host):
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    port = parts.port or (80 if parts.scheme == "http" else 443)
    seconds = _seconds()
    outcomes: queue.Queue[OSError | None] = queue.Queue()
    families = (socket.AF_INET, socket.AF_INET6)  # at once: one of them may be silent

    def connect(family: socket.AddressFamily) -> None:
        try:
            address = socket.getaddrinfo(parts.hostname, port, family, socket.SOCK_STREAM)[0][4]
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.settimeout(seconds)
                connection.connect(address)
        except OSError as failed:
            outcomes.put(failed)
        else:
            outcomes.put(None)

    for family in families:
        # threads, because looking up a name has no time-out
        threading.Thread(target=connect, args=(family,), daemon=True).start()
    end = time.monotonic() + seconds
    failures: list[OSError] = []
    for _ in families:
        try:
            failed = outcomes.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            return f"no answer within {seconds:g} s; to wait longer, set {VARIABLE}=10"
        if failed is None:
            return None
        failures.append(failed)
    # a host that has no address of one family says little beside one that refuses a connection
    failed = min(failures, key=lambda failure: isinstance(failure, socket.gaierror))
    return failed.strerror or str(failed)


def _seconds() -> float:
    try:
        return max(0.1, float(os.environ.get(VARIABLE, SECONDS)))
    except ValueError:
        return SECONDS
