"""The run file of a model card: the settings of a training run, without paths of the machine it ran on."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import yaml

from weft.errors import WeftError
from weft.utils.safe_yaml import YamlError, parse_yaml, read_text

RUN_FILE = "run.yaml"
PRIVATE = ("trackers", "tensorboard")
"""Settings that name accounts, projects or folders of the user, and nothing about the model."""
_ABSOLUTE = re.compile(r"(?:[A-Za-z]:[\\/]|[\\/]|~|\.\.?[\\/]|file:)")
_INSIDE = re.compile(
    r"(?<![\w.:/\\}-])(?:[A-Za-z]:|~|\.\.?)?[\\/](?:[^\\/\s'\",;:|]+[\\/])*(?P<name>[^\\/\s'\",;:|]+)"
)
_FILE = re.compile(r"\.(?:csv|tsv|txt|jsonl?|ndjson|parquet|conll\w*|ya?ml|gz|zip|xlsx?|tar)$", re.IGNORECASE)


def run_settings(folder: Path) -> dict[str, Any] | None:
    """Return the settings of a run with file names instead of paths; None if there is no run file.

    Args:
        folder: the folder of a run.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        return None
    try:
        settings = parse_yaml(read_text(path))
    except (YamlError, WeftError, OSError):
        return None  # a card is no place to report a damaged run file; nothing else of it is needed
    return without_paths(settings) if isinstance(settings, dict) else None


def as_yaml(settings: dict[str, Any]) -> str:
    """Settings as the text of a run file."""
    text: str = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=100)
    return text


def data_sets(settings: dict[str, Any]) -> dict[str, str]:
    """Return the data set on the hub that each task of a run was trained on, as far as there is one."""
    tasks = settings.get("tasks")
    entries = tasks if isinstance(tasks, list) else []
    return {
        str(task["name"]): task["hub"]
        for task in entries
        if isinstance(task, dict) and isinstance(task.get("hub"), str) and "name" in task
    }


def without_paths(value: Any) -> Any:
    """Return settings in which every path is only its last part, and what is private is left out.

    Example:
        >>> without_paths({"train": "/home/anna/data/rte.tsv", "encoder": "random:bert-tiny@/home/words"})
        {'train': 'rte.tsv', 'encoder': 'random:bert-tiny@words'}
    """
    if isinstance(value, dict):
        return {without_paths(key): without_paths(item) for key, item in value.items() if key not in PRIVATE}
    if isinstance(value, list | tuple):
        return [without_paths(item) for item in value]
    return _without_path(value) if isinstance(value, str) else value


def _without_path(text: str) -> str:
    """A text without paths: as a whole if it is one, else inside it. Hub ids, `user/name`, stay."""
    before, at, after = text.partition("@")
    if at and _ABSOLUTE.match(after):
        return f"{_without_path(before)}@{_last(after)}"
    if _ABSOLUTE.match(text) or (_FILE.search(text) and "://" not in text and "{" not in text):
        return _last(text)
    return _INSIDE.sub(lambda found: found["name"], text)


def _last(path: str) -> str:
    parts = PureWindowsPath(path) if "\\" in path or re.match(r"[A-Za-z]:", path) else PurePosixPath(path)
    return parts.name or "…"
