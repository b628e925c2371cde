"""What folders for other libraries have in common: the merged encoder, the tokenizer, the file weft.json."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from weft.bundle.updates import check_finite
from weft.encoder.hub_id import portable_name
from weft.encoder.load import weights_sha256
from weft.encoder.pretrained import lacks_tokenizer, saved_tokenizer
from weft.errors import WeftError
from weft.interop.refusals import CannotExport
from weft.utils.safe_json import read_json
from weft.utils.version import __version__

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

WEFT_FILE = "weft.json"
README_FILE = "README.md"


def check_place(folder: Path, name: str) -> None:
    """Refuse a path that exists, unless it is an earlier export in the same format.

    Args:
        folder: the folder to write.
        name: the export format.
    """
    if not folder.exists():
        return
    file = folder / WEFT_FILE
    settings = read_json(file, "expected an export of weft") if file.is_file() else None
    if not isinstance(settings, dict) or settings.get("exported_to") != name:
        other = settings.get("exported_to") if isinstance(settings, dict) else None
        is_ = f"is an export to {other}" if isinstance(other, str) else f"is not an export of weft to {name}"
        raise WeftError(f"{folder} exists and {is_}; pass a folder that does not exist")


def merged_encoder(model: Model, task: Task) -> nn.Module:
    """Return a plain encoder on the CPU that computes the task's hidden states.

    Raises:
        CannotExport: an adapter of the method cannot be merged.
    """
    try:
        encoder = model.merge(task.name)
    except WeftError as wrong:
        methods = " with ".join(part.name for part in model.method.parts)
        raise CannotExport(f"method {methods}: {wrong}") from None
    encoder = encoder.cpu()
    vars(encoder).pop("save_pretrained", None)  # the tokenizer is saved with its maximal length, see below
    what = f"task {task.name!r} cannot be exported: its encoder"
    check_finite(what, *encoder.parameters())
    return encoder


def save_tokenizer(model: Model, folder: Path) -> bool:
    """Write the tokenizer with the model's `max_length`; return False if the encoder has none."""
    encoder = model.encoder_source
    source = encoder.tokenizer_source
    tokenizer: Any
    if "tokenizer" in vars(encoder) and source is None:
        tokenizer = copy.deepcopy(encoder.tokenizer)
    elif source is None or lacks_tokenizer(source):
        return False
    else:
        tokenizer = saved_tokenizer(encoder.name, source)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # sentence encoders save both; the length of their truncation is not the model's
        backend.no_padding()
        backend.no_truncation()
    tokenizer.model_max_length = model.max_length
    if not model.body.takes_token_types:  # weft leaves them out too, whatever the tokenizer says
        tokenizer.model_input_names = [n for n in tokenizer.model_input_names if n != "token_type_ids"]
    tokenizer.save_pretrained(folder)
    return True


def weft_settings(model: Model, task: Task, name: str) -> dict[str, Any]:
    """What weft.json records: which model the folder was made from, and the task."""
    return {
        "exported_to": name,
        "weft": __version__,
        "encoder": encoder_record(model),
        "method": model.method.settings(),
        "task": task.settings(),
        "pool": model.pool,
        "max_length": model.max_length,
    }


def encoder_record(model: Model) -> dict[str, str]:
    """The pretrained encoder that a model was made from: its name on other machines, and its hash."""
    return {
        "name": portable_name(model.encoder_source),
        "weights_sha256": model.encoder_source.sha256 or weights_sha256(model.encoders[0]),
    }
