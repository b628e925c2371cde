"""Some tasks of a bundle without the others: their names, and the method without groups of other tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.core.stacked import group_owner
from weft.errors import WeftError

GROUPS = "share"
"""The setting of a method that may name groups of tasks: {group: [task, task]}."""


def chosen_names(tasks: str | Sequence[str] | None) -> list[str] | None:
    """Return the names of the tasks that are to be loaded; None: all.

    Args:
        tasks: one name, or a list of names.
    """
    if tasks is None:
        return None
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise WeftError(f"tasks: expected the names of the tasks to load, each once; found {tasks!r}")
    return names


def method_of_tasks(settings: Any, names: Sequence[str]) -> tuple[Any, frozenset[str]]:
    """Return the settings of a method without tasks that are not loaded, and the owners that fall away.

    A group keeps those of its tasks that are loaded. A group without any is left out, and so are its tensors.

    Args:
        settings: the settings, as bundle.json has them: of one method, or of several.
        names: the names of the tasks that are loaded.

    Example:
        >>> method_of_tasks({"use": "lora", "share": {"pairs": ["rte", "mrpc"], "rest": ["cola"]}}, ["rte"])
        ({'use': 'lora', 'share': {'pairs': ['rte']}}, frozenset({'group:rest'}))
    """
    if isinstance(settings, list):
        parts = [method_of_tasks(part, names) for part in settings]
        return [part for part, _ in parts], frozenset().union(*(owners for _, owners in parts))
    groups = settings.get(GROUPS) if isinstance(settings, Mapping) else None
    if not isinstance(groups, Mapping):
        return settings, frozenset()
    kept = {group: [task for task in members if task in names] for group, members in groups.items()}
    left_out = frozenset(group_owner(group) for group, members in kept.items() if not members)
    remaining = {group: members for group, members in kept.items() if members}
    return {**settings, GROUPS: remaining or "task"}, left_out
