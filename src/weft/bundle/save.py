"""Writing a bundle."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weft.bundle.checksums import ENCODER_WEIGHTS, write_manifest
from weft.bundle.manifest import FORMAT, MANIFEST, METADATA, SHARED_FILE, method_sha256, task_file
from weft.bundle.padding import Ranked, ranked_parameters, without_padding
from weft.core.stacked import task_owner
from weft.encoder.catalogue import RANDOM
from weft.encoder.weave import unweave
from weft.errors import WeftError
from weft.model.ownership import Owned, of_owner, owned
from weft.utils.checksums import file_sha256
from weft.utils.files import new_folder
from weft.utils.finite import NOT_FINITE, not_finite
from weft.utils.tensor_files import save_file
from weft.utils.version import __version__

if TYPE_CHECKING:
    from weft.model.model import Model


def save(model: Model, folder: str | Path, with_encoder: bool = False) -> Path:
    """Write the model as a bundle, atomically.

    Args:
        model: the model.
        folder: the bundle's folder; an existing bundle is replaced, anything else is refused.
        with_encoder: whether to include the encoder and its tokenizer, or only their name and sha256. An
            encoder that was not loaded from files is always included.
    """
    model.captures.check_plain()
    folder = Path(folder)
    if folder.exists() and not (folder / MANIFEST).is_file():
        raise WeftError(f"{folder} exists and is not a bundle; pass a different folder")
    by_owner: dict[str, list[Owned]] = {}
    for item in owned(model):
        if in_files(item):
            by_owner.setdefault(item.owner, []).append(item)
    check_weights(by_owner, folder)
    task_owners = {task_owner(task.name) for task in model.tasks}
    with new_folder(folder) as work:
        (work / "tasks").mkdir()
        shared = [item for owner, items in by_owner.items() if owner not in task_owners for item in items]
        ranked = ranked_parameters(model)
        _write(work / SHARED_FILE, shared, {}, ranked)
        known = {SHARED_FILE: file_sha256(work / SHARED_FILE)}
        stands_on = {
            "encoder": model.encoder_source.sha256,
            "shared": known[SHARED_FILE],
            "method": method_sha256(model.method.settings()),
        }
        for task in model.tasks:
            facts = {"task": task.settings(), "stands_on": stands_on}
            _write(task_file(work, task.name), by_owner.get(task_owner(task.name), []), facts, ranked)
        contents = manifest(model)
        if with_encoder or model.encoder_source.travels or not _can_be_found(model):
            _write_encoder(model, work / "encoder")
            known[ENCODER_WEIGHTS] = file_sha256(work / ENCODER_WEIGHTS)
            contents["encoder"]["included"] = known[ENCODER_WEIGHTS]
            contents["encoder"]["files"] = {}  # they are among the bundle's own files
        write_manifest(work, contents, known)
    return folder


def check_weights(by_owner: Mapping[str, Sequence[Owned]], folder: Path) -> None:
    """Refuse to write weights that are NaN or infinite: no bundle that exists is replaced by them.

    Args:
        by_owner: what the bundle will hold, by owner.
        folder: the bundle, for the message.
    """
    for owner, items in by_owner.items():
        if odd := not_finite({key(item): item.data for item in items}):
            raise WeftError(
                f"the model is not saved to {folder}: weights {of_owner(owner)} are {NOT_FINITE} ({odd[0]}); "
                "train it again with a smaller learning rate, or load its last good bundle"
            )


def manifest(model: Model) -> dict[str, Any]:
    """The contents of bundle.json without the checksums of the bundle's own files.

    Of the encoder, `included` is the sha256 of its weights' file if it is included, and `files` those of its
    configuration and tokenizer if it is not.
    """
    return {
        "format": FORMAT,
        "weft": __version__,
        "encoder": {
            "name": model.encoder_source.name,
            "sha256": model.encoder_source.sha256,
            "included": None,
            "files": dict(model.encoder_source.files),
        },
        "method": model.method.settings(),
        "tasks": [task.name for task in model.tasks],
        "heads": {"pool": model.pool, "dropout": model.head_dropout},
        "max_length": model.max_length,
        "seed": model.seed,
    }


def in_files(item: Owned) -> bool:
    """Whether a tensor belongs in a bundle: all but the encoder's own frozen weights."""
    return item.part != "encoder" or item.trains or item.owner != "encoder"


def key(item: Owned) -> str:
    """A tensor's name in its file: the parameter's, with the owner's if a file holds several owners."""
    return item.name if item.owner.startswith(("task:", "encoder")) else f"{item.owner}/{item.name}"


def task_tensors(model: Model, name: str) -> dict[str, Tensor]:
    """The tensors of one task, as its file holds them."""
    items = [item for item in owned(model) if item.owner == task_owner(name) and in_files(item)]
    return _tensors(items, ranked_parameters(model))


def _tensors(items: list[Owned], ranked: Ranked) -> dict[str, Tensor]:
    # float32 whatever the model was converted to: a bundle has one dtype, and `load` refuses all others
    return {key(i): without_padding(i, ranked).detach().cpu().float().contiguous().clone() for i in items}


def _write(path: Path, items: list[Owned], facts: dict[str, Any], ranked: Ranked) -> None:
    # one metadata key: several would be written in no fixed order, and equal files could differ in bytes
    save_file(_tensors(items, ranked), path, {METADATA: json.dumps(facts, sort_keys=True)})


def _can_be_found(model: Model) -> bool:
    """Whether the encoder's weights can be loaded again, or generated again from a seed."""
    return model.encoder_source.source is not None or model.encoder_source.name.startswith(RANDOM)


def _write_encoder(model: Model, folder: Path) -> None:
    """Write the base weights, as they were before training; the hashes are of these.

    An encoder without files has only its current weights. These serve as well: trained weights are in the
    bundle's other files, which are loaded over them.
    """
    from weft.encoder.load import load_encoder
    from weft.encoder.pretrained import lacks_tokenizer, quiet

    if _can_be_found(model):
        base = load_encoder(model.encoder_source.source or model.encoder_source.name, seed=model.seed)
        plain: Any = base.model
        has_tokenizer = base.tokenizer_source is not None and not lacks_tokenizer(base.tokenizer_source)
        tokenizer = base.tokenizer if has_tokenizer else None
    else:
        plain = unweave(copy.deepcopy(model.encoders[0]))
        tokenizer = model.encoder_source.__dict__.get("tokenizer")
    with quiet():
        plain.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
