"""Bundles and checkpoints changed by hand, with checksums that fit: a test reaches the checks behind them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.bundle.checksums import FILES, MANIFEST, write_manifest
from weft.utils.checksums import SEAL, sealed
from weft.utils.files import write_json


def contents_of(bundle: Path) -> dict[str, Any]:
    """The contents of bundle.json."""
    return json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))


def edit_state(checkpoint: Path, **changes: Any) -> None:
    """Change keys of a checkpoint's state.json; its own checksum fits again."""
    path = checkpoint / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, sealed({**state, **changes}))


def unseal_state(checkpoint: Path) -> dict[str, Any]:
    """Make a checkpoint one of a version of weft that wrote no checksums; returns its state."""
    path = checkpoint / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    for key in (SEAL, "files", "best", "settings"):
        state.pop(key, None)
    state["data"].pop("encoder_files", None)
    write_json(path, state)
    return state


def reseal(bundle: Path) -> Path:
    """Record the checksums of the files as they are now."""
    write_manifest(bundle, contents_of(bundle))
    return bundle


def edit(bundle: Path, **changes: Any) -> Path:
    """Change keys of bundle.json; its own checksum fits again."""
    write_json(bundle / MANIFEST, sealed({**contents_of(bundle), **changes}))
    return bundle


def unseal(bundle: Path) -> Path:
    """Make bundle.json one of a version of weft that wrote no checksums."""
    contents = {key: value for key, value in contents_of(bundle).items() if key not in (FILES, SEAL)}
    contents["encoder"].pop("files", None)
    write_json(bundle / MANIFEST, contents)
    return bundle
