"""Leading huggingface_hub to the stand-in of tests/support/hub.py, and what the hub refuses about a card."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.support.hub_state import TOKEN

KNOWN_TAGS = (
    *("text-classification", "token-classification", "question-answering", "sentence-similarity"),
    *("multiple-choice", "text-ranking", "fill-mask", "feature-extraction"),
)
"""Values of `pipeline_tag` that the hub accepts, as far as models of text use them."""


def card_problems(text: str) -> list[str]:
    """What the hub would refuse about a card's header, as far as its documentation says it."""
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        return ["empty or missing yaml metadata in repo card"]
    try:
        header = yaml.safe_load(text[4:].partition("\n---\n")[0])
    except yaml.YAMLError as wrong:
        return [f"YAML Metadata Error: {wrong}"]
    if not isinstance(header, dict):
        return ["the metadata must be a mapping"]
    problems = []
    for key, kinds in {
        "license": str,
        "library_name": str,
        "pipeline_tag": str,
        "tags": list,
        "base_model": str | list,
        "base_model_relation": str,
        "language": str | list,
        "model-index": list,
    }.items():
        if key in header and not isinstance(header[key], kinds):
            problems.append(f'"{key}" has the wrong type')
    if header.get("pipeline_tag", KNOWN_TAGS[0]) not in KNOWN_TAGS:
        problems.append(f'"pipeline_tag" must be one of {KNOWN_TAGS}')
    if header.get("license", "mit") != str(header.get("license", "mit")).lower():
        problems.append('"license" must be the identifier of a license')
    for entry in header.get("model-index", ()):
        for result in entry.get("results") or ():
            for place, keys in {"task": ("type",), "dataset": ("name", "type")}.items():
                for key in keys:
                    if not isinstance(result.get(place, {}).get(key), str):
                        problems.append(f'"model-index[0].results[0].{place}.{key}" is required')
            for metric in result.get("metrics") or [{}]:
                if not isinstance(metric.get("type"), str) or not isinstance(
                    metric.get("value"), int | float
                ):
                    problems.append('"metrics" need "type" and "value"')
        if not entry.get("name"):
            problems.append('"model-index[0].name" is required')
    return problems


def environment(address: str, home: Path, token: str | None = TOKEN) -> dict[str, str]:
    """The variables that lead huggingface_hub of a new process to the server, with a cache of its own."""
    variables = {
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    return variables if token is None else {**variables, "HF_TOKEN": token}


def address_to(patch: pytest.MonkeyPatch, address: str, home: Path, token: str | None = TOKEN) -> None:
    """Lead huggingface_hub of this process to the server.

    It reads its environment when it is imported, which has happened by now; so the settings that it has made
    of these variables are set too. None of its code is replaced.
    """
    from huggingface_hub import constants

    from weft.utils import hub

    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        patch.delenv(name, raising=False)
    for name, value in environment(address, home, token).items():
        patch.setenv(name, value)
    patch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "HF_HOME", str(home))
    patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    patch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(hub, "_answers", {})
    os.makedirs(home, exist_ok=True)


def files_of(folder: Path) -> dict[str, bytes]:
    """The contents of all files of a folder, by their paths there."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
