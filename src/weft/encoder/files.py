"""The files of an encoder besides its weights: its configuration and its tokenizer.

The weights of an encoder have one sha256 (`Encoder.sha256`). These files decide on its answers as much: a
changed tokenizer gives other tokens, a changed configuration other numbers. A bundle that only names its
encoder records their sha256, and so does a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.encoder.packages import named_by_sha256
from weft.errors import WeftError, words
from weft.utils.checksums import file_problem, file_sha256

VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tokenizer.model"),
)
"""Files that may hold a tokenizer's vocabulary; every tokenizer has at least one of them."""

SETTINGS = (
    *("config.json", "1_Pooling/config.json"),
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    *VOCABULARIES,
)
"""Files that decide on an encoder's answers besides its weights, as far as it has them."""


@dataclass(frozen=True)
class Recorded:
    """What a bundle records of its encoder, to be compared before the encoder is loaded.

    Attributes:
        record: the file that records it, for messages.
        sha256: the sha256 of its weights, as `Encoder.sha256`; None: unknown.
        files: the sha256 of its configuration and tokenizer files, by their names.
        verified: whether the caller has compared the files already.
    """

    record: Path
    sha256: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    verified: bool = False


def settings_sha256(source: str | None) -> dict[str, str]:
    """Return the sha256 of an encoder's configuration and tokenizer files, by their names.

    Args:
        source: the folder or hub id of its files; of a hub id those in the cache are read. None: no files.
    """
    paths = {name: _path(source, name) for name in SETTINGS if source is not None}
    return {name: file_sha256(path) for name, path in paths.items() if path is not None}


def check_weights(path: Path, sha256: str | None, recorded: Recorded | None) -> None:
    """Refuse an encoder whose weights are not the recorded ones.

    Args:
        path: its model.safetensors.
        sha256: the sha256 of that file; None: it has none, and its tensors are compared once they are loaded.
        recorded: what is known of the encoder; None: nothing.
    """
    if recorded is None or None in (sha256, recorded.sha256) or sha256 == recorded.sha256:
        return
    found, expected = (
        f"{value} ({name})" if (name := named_by_sha256(value)) else value
        for value in (sha256, recorded.sha256)
    )
    raise WeftError(
        f"{path} is damaged or was replaced: its sha256 is not the recorded one\n"
        f"  sha256 found    {found}\n  sha256 expected {expected}\n"
        f"  {recorded.record} records the encoder that the model was trained with; restore the file, or "
        "install the encoder again"
    )


def check_settings(source: str, recorded: Recorded | None) -> None:
    """Refuse an encoder whose configuration or tokenizer is not the recorded one.

    Args:
        source: the folder or hub id of its files.
        recorded: what is known of the encoder; None: nothing.
    """
    for name, sha256 in recorded.files.items() if recorded is not None else ():
        path = _path(source, name)
        if path is None and not Path(source).is_dir():
            continue  # not downloaded yet, or no longer needed
        if problem := file_problem(path or Path(source) / name, sha256):
            assert recorded is not None
            explicit = words(f"--encoder {source}", f"encoder={source!r}")
            raise WeftError(
                f"{problem}\n  {recorded.record} records the encoder that the model was trained with; "
                "restore the file, or install the encoder again\n"
                f"  if the change is intended, pass the encoder: {explicit}"
            )


def _path(source: str | None, name: str) -> Path | None:
    """The path of a file of an encoder; None if there is none here."""
    if source is None:
        return None
    if Path(source).is_dir():
        path = Path(source) / name
        return path if path.is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(source, name)
    except HFValidationError:
        return None
    return Path(cached) if isinstance(cached, str) else None
