"""`weft serve --on ray`: several replicas of the server as one application of Ray Serve."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.manifest import find_bundle
from weft.errors import RunFailed, WeftError, words
from weft.serving.server import check_serving, listen, stop_signals, url_of
from weft.utils.ray_start import ray_cluster, runtime_environment

if TYPE_CHECKING:
    from weft.serving.settings import ServeSettings

APPLICATION = "weft"
"""The name of Ray Serve's application."""
CONTROLLER = "SERVE_CONTROLLER_ACTOR"
"""Ray Serve's actor, if it runs on a cluster."""
EVENLY = {
    "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",
    "RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
}
"""Requests go to replicas on all nodes, and the proxy has a minute to start.

By default those on the proxy's node get every request until they have `max_ongoing_requests` of them, and a
proxy that is not ready after a few seconds is killed.
"""
RETRIES = 3
"""How often Ray Serve tries to start a replica at first, and its proxy."""


@dataclass(frozen=True)
class Replicas:
    """How many replicas serve, and what each gets of the cluster.

    Attributes:
        count: the number of replicas.
        address: of the cluster; see `weft.utils.ray_start.ray_cluster`.
        cpus: CPU cores of each replica, and the threads that run its model.
        gpus: GPUs of each replica.
    """

    count: int = 1
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise WeftError(f"{words('--replicas', 'count')} must be at least 1; found {self.count}")
        if not self.cpus > 0:
            raise WeftError(f"{words('--cpus-per-replica', 'cpus')} must be above 0; found {self.cpus:g}")
        if not self.gpus >= 0:
            raise WeftError(f"{words('--gpus-per-replica', 'gpus')} must be 0 or more; found {self.gpus:g}")


def serve_on_ray(
    bundle: str | Path,
    settings: ServeSettings,
    replicas: Replicas,
    host: str = "127.0.0.1",
    port: int = 8000,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve a bundle until the process gets SIGINT or SIGTERM; accepted requests are then still answered.

    Args:
        bundle: the folder of a bundle or of a run; all nodes must see it.
        settings: the settings.
        replicas: how many, and where.
        host: the address that Ray Serve's proxy listens at, on the head node.
        port: its port; 0: one that is free on this machine.
        tell: called with the address.
    """
    tasks = check_serving(bundle, settings, host)
    folder = find_bundle(bundle).resolve()
    variables = {**EVENLY, "OMP_WAIT_POLICY": "PASSIVE"}  # see `weft.serving.server.serve`
    with ray_cluster(replicas.address, variables) as ray:
        settings = placed(ray, settings, replicas)
        from ray import serve

        _check_alone(ray)
        with listen(host, port) as listener:  # the head node may be a different machine, where it is free
            port = listener.getsockname()[1]
        for name in ("ray.serve", "ray"):
            logging.getLogger(name).setLevel(logging.ERROR)
        done = threading.Event()
        with stop_signals(lambda number, frame: done.set()):
            shared = _shared(ray, variables)
            try:
                _start(ray, serve, host, port)
                _deploy(serve, folder, settings, replicas, shared, variables)
                count = f"{replicas.count} replica{'s' if replicas.count > 1 else ''}"
                tell(f"serving {tasks} tasks of {bundle} with {count} at {url_of(host, port)}")
                done.wait()
                serve.delete(APPLICATION)  # waits until accepted requests are answered
            finally:
                serve.shutdown()


def _start(ray: Any, serve: Any, host: str, port: int) -> None:
    """Start Ray Serve; on a busy machine its proxy may be slow to start, and is then replaced by another."""
    for left in reversed(range(RETRIES)):
        try:
            serve.start(
                proxy_location="HeadOnly",
                http_options={"host": host, "port": port},
                logging_config=QUIET,
            )
            return
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as wrong:
            if not left:
                raise RunFailed(
                    f"the proxy of Ray Serve did not start at {url_of(host, port)}, {RETRIES} times: "
                    f"{str(wrong).splitlines()[0]}"
                ) from None


QUIET = {"log_level": "ERROR", "enable_access_log": False}
"""The settings of Ray Serve's logs; the replicas have their own."""


def placed(ray: Any, settings: ServeSettings, replicas: Replicas) -> ServeSettings:
    """The settings of each replica; a WeftError if the cluster has no room for all."""
    total = ray.cluster_resources()
    for name, option, each in (
        ("CPU", "cpus", replicas.cpus),
        ("GPU", "gpus", replicas.gpus),
    ):
        there, needed = total.get(name, 0.0), each * replicas.count
        if needed > there:
            raise WeftError(
                f"{words(f'--replicas {replicas.count}', f'count={replicas.count}')}: the Ray cluster has "
                f"{there:g} {name}s, and replicas with {each:g} each need {needed:g}; choose fewer replicas, "
                f"or {words(f'--{option}-per-replica', option)} below {each:g}"
            )
    device = settings.device
    if replicas.gpus and device == "cpu":
        raise WeftError("GPUs for replicas with the device cpu; leave out one of them")
    if not replicas.gpus and device not in (None, "cpu"):
        option = words("--gpus-per-replica", "gpus")
        raise WeftError(f"device {device}: replicas have no GPU; set {option}, such as {option} 1")
    threads = settings.threads or max(1, int(replicas.cpus))
    return replace(settings, device=device if replicas.gpus else "cpu", threads=threads)


def _check_alone(ray: Any) -> None:
    """Refuse a cluster where Ray Serve runs: ending this command would end other applications."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    if any(actor["name"].startswith(CONTROLLER) for actor in actors):
        raise WeftError(
            "Ray Serve runs already on this cluster; end it with `serve shutdown`, or use a different cluster"
        )


def _shared(ray: Any, variables: dict[str, str]) -> str:
    """Start the actor of `TaskChanges` on this machine; returns its name. It ends with this process."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from weft.serving.replicas.replica import NAMESPACE
    from weft.serving.replicas.task_changes import TaskChanges

    name = f"tasks-{uuid.uuid4().hex}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # a reference that goes away would end the actor
    _actors.append(
        ray.remote(TaskChanges)
        .options(
            name=name,
            namespace=NAMESPACE,
            num_cpus=0,
            scheduling_strategy=here,
            runtime_env=runtime_environment(variables),
        )
        .remote()
    )
    return name


_actors: list[Any] = []
"""References to actors that are to live as long as this process."""


def _deploy(
    serve: Any,
    folder: Path,
    settings: ServeSettings,
    replicas: Replicas,
    shared: str,
    variables: dict[str, str],
) -> None:
    """Start the replicas, and wait until they are ready."""
    from weft.serving.replicas.replica import FAILED, Replica

    deployment = serve.deployment(
        serve.ingress()(Replica),
        name="replica",
        num_replicas=replicas.count,
        max_ongoing_requests=settings.queue,  # weft's batcher wants many at once, and refuses too many itself
        max_constructor_retry_count=RETRIES,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=settings.deadline + 5,
        ray_actor_options={
            "num_cpus": replicas.cpus,
            "num_gpus": replicas.gpus,
            "runtime_env": runtime_environment(variables),
        },
        logging_config=QUIET,
    )
    application = deployment.bind(str(folder), settings, shared, os.getcwd())
    try:
        serve.run(application, name=APPLICATION, route_prefix="/", logging_config=QUIET)
    except RuntimeError as wrong:
        text = str(wrong)
        reasons = [line[line.index(FAILED) :] for line in text.splitlines() if FAILED in line]
        if reasons:
            raise WeftError(reasons[-1]) from None
        raise RunFailed(f"the replicas did not start: {text.strip().splitlines()[-1]}") from wrong
