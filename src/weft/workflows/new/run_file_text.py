"""The text of a drafted run file: YAML with a comment beside each guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from weft.data.drafting.draft import TaskDraft

WIDTH = 100
"""Lists that make a line longer than this are written over several lines."""


def run_file_text(
    encoder: str,
    method: str,
    drafts: Sequence[TaskDraft],
    train: Mapping[str, Any],
    train_comments: Mapping[str, str],
    header: Sequence[str] = (),
) -> str:
    """Return the text of a run file.

    Args:
        encoder: the encoder.
        method: the method.
        drafts: the tasks.
        train: the `train` section.
        train_comments: comments for its keys.
        header: lines of comment at the top.
    """
    lines = [f"# {_one_line(line)}" for line in header]
    lines += _entry("encoder", encoder, "", "")
    lines += _entry("method", method, "", "")
    lines += ["", "tasks:"]
    for number, draft in enumerate(drafts):
        lines += [""] * (number > 0)
        lines.append(f"  {flow(draft.name)}:")
        lines += [f"    # {_one_line(line)}" for line in draft.about]
        for key, value in draft.settings.items():
            lines += _entry(key, value, draft.comments.get(key, ""), "    ")
        lines += [f"    # {_one_line(line)}" for line in draft.suggestions]
    lines += ["", "train:"]
    for key, value in train.items():
        lines += _entry(key, value, train_comments.get(key, ""), "  ")
    return "\n".join(lines) + "\n"


def flow(value: object) -> str:
    """Return a value as YAML in one line.

    Example:
        >>> flow(["no", "1", "B-x"]), flow({"path": "a.csv", "delimiter": ";"})
        ("['no', '1', B-x]", '{path: a.csv, delimiter: ;}')
    """
    text = yaml.dump(
        value, Dumper=_OneLine, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**9
    )
    return text.removesuffix("\n").removesuffix("\n...")


class _OneLine(yaml.SafeDumper):
    """Writes a text with a line break in double quotes, as `\\n`; other styles would break the line."""


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if len(text.splitlines()) > 1 or text != text.strip() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_OneLine.add_representer(str, _represented)


def _entry(key: str, value: Any, comment: str, indent: str) -> list[str]:
    """The line of a key; a long list or mapping in block style, with its comment above."""
    line = f"{indent}{key}: {_shown(key, value)}"
    words = _one_line(comment)
    if len(line) <= WIDTH or not isinstance(value, list | dict):
        if not words:
            return [line]
        both = f"{line}  # {words}"
        return [both] if len(both) <= WIDTH + 20 else [f"{indent}# {key}: {words}", line]
    above = [f"{indent}# {key}: {words}"] if words else []
    if isinstance(value, dict):
        return [*above, f"{indent}{key}:", *(f"{indent}  {k}: {flow(v)}" for k, v in value.items())]
    rows, row = [], ""
    for item in value:
        piece = f"{_shown(key, [item])[1:-1]}, "
        if row and len(indent) + 2 + len(row) + len(piece) > WIDTH:
            rows.append(row.rstrip())
            row = ""
        row += piece
    rows.append(row.rstrip(", "))
    return [*above, f"{indent}{key}: [", *(f"{indent}  {row}" for row in rows), f"{indent}]"]


def _shown(key: str, value: Any) -> str:
    """A value as YAML; labels that are whole numbers need no quotes, since a run file reads them as names."""
    if key == "labels" and isinstance(value, list):
        value = [int(item) if isinstance(item, str) and _is_whole(item) else item for item in value]
    return flow(value)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.lstrip("-").isdigit() and str(int(text)) == text


def _one_line(text: str) -> str:
    # YAML allows no control characters, not even in comments
    return "".join(character for character in " ".join(text.split()) if character.isprintable())
