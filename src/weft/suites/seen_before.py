"""Texts that a model has seen before its test: in the encoder's training, or in another task of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.suites.overlaps import twin_name
from weft.suites.tables import read_yaml, table_names


def seen_before(settings: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, list[str]]:
    """Why scores are not scores on new texts, by task; tasks without a known reason are left out.

    Known are tasks of the built-in suites alone: nothing is looked up in any file of data.

    Args:
        settings: the sections of a run file, `encoder` and `tasks`.
        tasks: the names of the tasks that were scored.

    Example:
        >>> list(seen_before({"encoder": "minilm", "tasks": {"suite": "glue"}}, ["cola", "qqp"]))
        ['qqp']
    """
    keys = _keys(settings.get("tasks"), tasks)
    table = read_yaml("overlaps")
    reasons: dict[str, list[str]] = {}
    for entry in table["encoders"]:
        if settings.get("encoder") in entry["names"]:
            for task, key in keys.items():
                if key in entry["tasks"]:
                    reasons.setdefault(task, []).append(f"the encoder was trained on {entry['tasks'][key]}")
    for pair in table["overlaps"]:
        first, second = pair["tasks"]
        for here, there in ((first, second), (second, first)):
            names = {key: task for task, key in keys.items()}
            if here in names and there in names:
                why = f"the run also trains on {names[there]}, and {pair['why']}"
                reasons.setdefault(names[here], []).append(why)
    return reasons


def _keys(section: Any, tasks: Sequence[str]) -> dict[str, str]:
    """The key SUITE/TASK of each task that belongs to a suite of the run."""
    entries = section if isinstance(section, list) else [section]
    suites = [entry["suite"] for entry in entries if isinstance(entry, dict) and "suite" in entry]
    keys: dict[str, str] = {}
    for suite in suites:
        if suite not in table_names():
            continue
        for name in read_yaml(suite)["tasks"]:
            for shown in (name, twin_name(suite, name)):
                if shown in tasks:
                    keys.setdefault(shown, f"{suite}/{name}")
    return keys
