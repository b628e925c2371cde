"""Where a grid runs on Ray: the cluster, what each cell gets of it, and checks of its nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError, words
from weft.experiments.ray_node import Found, Needed, check_node

Node = Mapping[str, Any]
"""An entry of `ray.nodes()`."""
LINES = 8
"""How many lines about nodes a message has at most."""


@dataclass(frozen=True)
class OnRay:
    """Where and with what a grid runs on Ray.

    Attributes:
        address: of the cluster; see `weft.utils.ray_start.ray_cluster`.
        cpus: CPU cores of each cell, and the number of its threads.
        gpus: GPUs of each cell, such as 0.25: four cells share one. None: 1 if the cluster has any, else 0.
        apart: whether cells run in folders of their nodes even if these see that of the comparison.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        for option, value, least in (("cpus", self.cpus, 0.01), ("gpus", self.gpus or 0.0, 0.0)):
            name = words(f"--{option}-per-cell", option)
            if not math.isfinite(value) or value < least:
                raise WeftError(f"{name} must be {'above 0' if least else '0 or more'}; found {value:g}")
            if value > 1 and value != int(value):
                raise WeftError(f"{name} above 1 must be a whole number; found {value:g}")


def alive(ray: Any) -> list[Node]:
    """The nodes of the cluster."""
    return [node for node in ray.nodes() if node["Alive"]]


def able_nodes(ray: Any, cpus: float, gpus: float) -> list[Node]:
    """The nodes that have what one cell needs."""
    wanted = {"CPU": cpus, "GPU": gpus}
    return [
        node
        for node in alive(ray)
        if all(node["Resources"].get(name, 0.0) >= value for name, value in wanted.items())
    ]


def checked_gpus(nodes: Sequence[Node], settings: OnRay, device: str | None) -> float:
    """The GPUs of each cell; a WeftError if no node has what a cell needs.

    Args:
        nodes: the nodes.
        settings: what the user wants.
        device: the device that the user wants; None: a GPU if there is one.
    """
    most = {
        name: max((node["Resources"].get(name, 0.0) for node in nodes), default=0.0)
        for name in ("CPU", "GPU")
    }
    gpus = settings.gpus
    if gpus is None:
        gpus = float(most["GPU"] >= 1 and device != "cpu")
    option = words("--gpus-per-cell", "gpus")
    if device not in (None, "cpu", "cuda"):
        raise WeftError(f"device {device}: Ray chooses the GPU of each cell; expected cpu or cuda")
    if gpus and device == "cpu":
        raise WeftError(f"{option} {gpus:g} with the device cpu; leave out one of them")
    for name, per_cell in (("GPU", gpus), ("CPU", settings.cpus)):
        if per_cell > most[name]:
            found = f"the largest has {most[name]:g}" if most[name] else "none has any"
            named = words(f"--{name.lower()}s-per-cell", f"{name.lower()}s")
            raise WeftError(
                f"{named} {per_cell:g}: no node of the Ray cluster has so many {name}s, {found}; choose a "
                f"smaller number, or add nodes"
            )
    if device == "cuda" and not gpus:
        raise WeftError(f"device cuda: cells have no GPU; set {option} above 0 on a cluster with GPUs")
    return gpus


def check_nodes(ray: Any, nodes: Sequence[Node], needed: Needed, how: Mapping[str, Any]) -> list[str]:
    """Refuse a cluster with a node that lacks something: its cells would fail one after another.

    Args:
        ray: the module.
        nodes: the nodes.
        needed: what the grid needs on each.
        how: options of the tasks that look for it.

    Returns:
        The names of the nodes that do not see the folder of the comparison.
    """
    check = ray.remote(check_node)
    checks = [
        check.options(num_cpus=0, max_retries=3, scheduling_strategy=at_node(node["NodeID"]), **how).remote(
            needed
        )
        for node in nodes
    ]
    found = [_found(ray, node, result, needed) for node, result in zip(nodes, checks, strict=True)]
    lines = [f"  {each.node}: {line}" for each in found for line in each.missing]
    if lines:
        more = [f"  … and {len(lines) - LINES} more"] if len(lines) > LINES else []
        raise WeftError(
            "nodes of the Ray cluster lack what the grid needs:\n"
            + "\n".join(lines[:LINES] + more)
            + "\n  put the files on a file system that all nodes share, or copy them to the same paths"
        )
    return [each.node for each in found if not each.shares]


def at_node(node: str) -> Any:
    """Ray's way to say on which node something runs."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def _found(ray: Any, node: Node, reference: Any, needed: Needed) -> Found:
    name = f"{node.get('NodeManagerHostname')} ({node.get('NodeManagerAddress')})"
    try:
        found: Found = ray.get(reference)
        return found
    except ray.exceptions.RayError as wrong:
        text = str(wrong).strip()
        if "No module named 'weft" in text:
            return Found(name, [f"weft is not installed there; install weft {needed.version}"], True)
        return Found(name, [f"the check of the node failed: {text.splitlines()[-1]}"], True)
