"""Joining or starting a Ray cluster, for commands with `--on ray`.

Ray (https://www.ray.io, Apache-2.0) distributes work over processes and machines; weft has no scheduler of
its own. Nothing of Ray is imported before `import_ray` or `ray_cluster` is called. Ray sends usage statistics
over the network and prints logs of its workers by default; both are off here.

    with ray_cluster(address) as ray:
        ray.get(ray.remote(len).remote("abc"))

Workers find weft as this process does: if weft runs from a checkout, its folder and PYTHONPATH are passed on
as environment variables; nothing is uploaded. On other machines the same paths must exist, or weft must be
installed there in the same version.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.errors import WeftError, words
from weft.utils.notes import print_note

RAY = "ray"
"""The value of `--on`."""
AUTO, LOCAL = "auto", "local"
"""Addresses: a cluster that runs on this machine; a new one on this machine, which ends with the command."""
SECONDS = 10.0
"""How long to wait for the answer of an address."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # else Ray reports usage by network
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # work without a GPU sees none, and Ray does not warn about it
    "RAY_DEDUP_LOGS": "0",
}
"""Environment variables that Ray reads when it is imported or started."""


def import_ray() -> Any:
    """Import Ray and return the module; a message names the extra if it is missing."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as wrong:
        raise WeftError(
            f"{words('--on ray', 'Ray')} needs the package {wrong.name or 'ray'!r}: pip install 'weft[ray]'"
        ) from None
    return ray


def runtime_environment(variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The `runtime_env` of workers: how they find weft, and further environment variables.

    Args:
        variables: further environment variables of the workers.
    """
    return {"env_vars": {**QUIET, **import_paths(), **(variables or {})}}


def import_paths() -> dict[str, str]:
    """PYTHONPATH with which another process of this machine imports the same weft; {} if none is needed."""
    source = Path(__file__).resolve().parents[2]
    installed = source.name in ("site-packages", "dist-packages")
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    absolute = [str(Path(path).resolve()) for path in before]  # a worker has a different current folder
    paths = dict.fromkeys([*([] if installed else [str(source)]), *absolute])
    return {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}


@contextmanager
def ray_cluster(address: str | None = None, variables: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Join a Ray cluster, or start one on this machine; at the end, leave it, or end the one that it started.

    If this process has called `ray.init` before, that connection is used and stays open.

    Args:
        address: "HOST:PORT" of a cluster's head node; "auto": the cluster that this machine belongs to;
            "local": a new one on this machine. None: that of the environment variable RAY_ADDRESS, else as
            "auto" if there is one, else as "local".
        variables: environment variables of the workers; see `runtime_environment`.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    before = _handler()
    _connect(ray, address, variables)
    _restore(before)  # Ray's handler of SIGTERM would end the process at once
    try:
        with _messages_as_notes():
            yield ray
    finally:
        before = _handler()
        ray.shutdown()
        _restore(before)


def _connect(ray: Any, address: str | None, variables: Mapping[str, str] | None) -> None:
    checked = _checked(address or os.environ.get("RAY_ADDRESS") or None)
    starts = {"include_dashboard": False} if checked == LOCAL else {}
    try:
        ray.init(
            address=checked,
            runtime_env=runtime_environment(variables),
            log_to_driver=False,
            logging_level=logging.ERROR,
            **starts,
        )
    except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as wrong:
        ray.shutdown()
        reason = (str(wrong).strip() or type(wrong).__name__).splitlines()[0]
        # something answers at HOST:PORT, and Ray names a wrong token in its log alone
        token = checked not in (None, AUTO, LOCAL) or "auth" in f"{type(wrong).__name__} {reason}".lower()
        advice = _token_advice() if token else _advice()
        raise WeftError(f"{_option(checked)}: cannot join the Ray cluster: {reason}; {advice}") from None


def _checked(address: str | None) -> str | None:
    """Refuse an address at which nothing answers: Ray itself would try for minutes."""
    if address is None:
        return LOCAL if _running() is None else AUTO
    if address == LOCAL:
        return address
    if address == AUTO:
        if _running() is None:
            raise WeftError(f"{_option(address)}: no Ray cluster runs on this machine; {_advice()}")
        return address
    if "://" in address:
        raise WeftError(
            f"{_option(address)}: Ray's client is not supported; run the command on a machine of the "
            f"cluster, with HOST:PORT of its head node, or send it there with `ray job submit`"
        )
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise WeftError(f"{_option(address)}: expected HOST:PORT, such as 10.0.0.1:6379, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except OSError as wrong:
        raise WeftError(
            f"{_option(address)}: nothing answers there ({wrong.strerror or wrong}); {_advice()}"
        ) from None
    return address


def _running() -> str | None:
    """The address of a cluster that runs on this machine; None: there is none."""
    try:
        from ray._private.services import canonicalize_bootstrap_address
    except ImportError:  # a name without a promise; then a cluster must be named by its address
        return None
    try:
        found = canonicalize_bootstrap_address(None)
    except ConnectionError:
        return None
    if not found:
        return None
    host, _, port = str(found).rpartition(":")
    try:  # the file that names it may be left over
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except OSError:
        return None
    return str(found)


def _option(address: str | None) -> str:
    return words(f"--address {address or AUTO}", f"address={address or AUTO!r}")


def _advice() -> str:
    return (
        "start a cluster with `ray start --head`, or leave out "
        f"{words('--address', 'address')} to start one on this machine"
    )


def _token_advice() -> str:
    auto = words("--address auto", "address='auto'")
    return (
        "if Ray prints InvalidAuthToken, the cluster has a token: `ray start --head` sets one where the file "
        "~/.ray/auth_token exists. Copy that file to this machine (or name it in RAY_AUTH_TOKEN_PATH) and "
        f"set the environment variable RAY_AUTH_MODE=token, or use {auto} on a machine of the cluster"
    )


@contextmanager
def _messages_as_notes() -> Iterator[None]:
    """Inside, messages about the cluster, such as a lost node, are notes.

    Ray prints them on standard output, where a command's results are, and has no setting against it.
    """
    from ray._private import worker

    before = getattr(worker, "print_to_stdstream", None)

    def note(data: Mapping[str, Any], *more: Any, **settings: Any) -> None:
        lines = [str(line) for line in data.get("lines", ()) if str(line).strip()]
        if lines and "ServeController" not in lines[0]:  # Ray Serve reports its own end as a failure
            print_note(f"Ray: {lines[0].strip().splitlines()[0][:300]}")

    if before is not None:  # a name without a promise: where it is missing, Ray prints as it likes
        worker.print_to_stdstream = note
    try:
        yield
    finally:
        if before is not None:
            worker.print_to_stdstream = before


def _handler() -> Any:
    """The handler of SIGTERM; None in a thread that cannot change it."""
    in_main = threading.current_thread() is threading.main_thread()
    return signal.getsignal(signal.SIGTERM) if in_main else None


def _restore(handler: Any) -> None:
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def refuse_without_ray(on: str | None, options: Mapping[str, object]) -> None:
    """Check the value of `--on`, and refuse options that need `--on ray` without it.

    Args:
        on: the value of `--on`.
        options: values by option, such as {"--address": address}; None: not given.
    """
    if on is not None and on != RAY:
        raise WeftError(f"--on {on}: unknown; expected ray, or leave it out to work on this machine")
    for option, value in options.items():
        if on is None and value is not None:
            raise WeftError(f"{option} needs --on ray; add it, or leave out {option}")


def node_name(ray: Any) -> str:
    """The name and address of the machine that the calling worker runs on, for messages."""
    return f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
