"""Loads an encoder by hub id, folder, built-in name, or `random:ARCHITECTURE[@TOKENIZER]`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.encoder.catalogue import (
    ARCHITECTURES,
    RANDOM,
    check_has_tokenizer,
    check_name,
    random_encoder,
    random_parts,
)
from weft.encoder.files import Recorded, check_settings, check_weights, settings_sha256
from weft.encoder.packages import PACKAGES, package_folder
from weft.encoder.pretrained import NotOnHub, model_from_files, tokenizer_from_files
from weft.errors import WeftError, did_you_mean
from weft.utils.checksums import file_sha256
from weft.utils.hub import hub_problem, model_in_cache
from weft.utils.safe_json import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass
class Encoder:
    """A loaded encoder.

    Attributes:
        name: the requested name.
        model: the Hugging Face model, float32, in eval mode.
        source: the folder or hub id that its files come from; None if there are none.
        notes: what the user should know about how it was loaded.
        sha256: the hash of its weights: of model.safetensors if that is the only file, else of the tensors.
        travels: whether it was part of a bundle. There may be no other copy, so a bundle that is saved from
            it contains it again.
        files: the sha256 of its configuration and tokenizer files, by their names.
        named_tokenizer: the folder or hub id of the tokenizer, if the name of a `random:` encoder has one.
    """

    name: str
    model: PreTrainedModel
    source: str | None = None
    notes: tuple[str, ...] = ()
    sha256: str | None = None
    travels: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    named_tokenizer: str | None = None

    @property
    def tokenizer_source(self) -> str | None:
        """The folder or hub id of the tokenizer's files; None if there are none."""
        return self.named_tokenizer or self.source

    @cached_property
    def pooling(self) -> str | None:
        """The pooling that a sentence encoder's files configure (`mean`, `cls`); None if there is none."""
        file = Path(self.source or "") / "1_Pooling" / "config.json"
        if self.source is None or not file.is_file():
            return None
        settings = read_json(file, "expected the pooling of a sentence encoder")
        names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
        return next((pool for key, pool in names.items() if settings.get(key)), None)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, with its own padding and truncation off: weft does both when it makes batches."""
        if self.tokenizer_source is None:
            check_has_tokenizer(self.name)
            raise WeftError(f"encoder {self.name!r} has no tokenizer: it has an architecture and no files")
        return tokenizer_from_files(self.name, self.tokenizer_source)


def load_encoder(
    name: str | Path, *, seed: int = 0, device: str | None = None, recorded: Recorded | None = None
) -> Encoder:
    """Load an encoder in float32.

    Args:
        name: a folder, a built-in encoder (`minilm`), a hub id, or `random:ARCHITECTURE[@TOKENIZER]`.
        seed: the random seed of the weights of `random:` encoders.
        device: the device to put it on; `meta` works for `random:` only.
        recorded: what is known of its files; files that differ are refused. None: nothing.
    """
    name = str(name)
    if name.startswith(RANDOM):
        return _random(name, seed, device, recorded)
    if device == "meta":
        raise WeftError(
            f"encoder {name!r} has weights to load; on the meta device only random:ARCHITECTURE works"
        )
    source = _source(name)
    weights = Path(source) / "model.safetensors"
    if name in PACKAGES:
        sha256: str | None = PACKAGES[name].sha256  # `_source` has verified it
    elif recorded is not None and recorded.verified:
        sha256 = recorded.sha256
    else:
        sha256 = file_sha256(weights) if weights.is_file() else None
    name = source if Path(name).is_dir() else name
    # before anything is loaded: what damaged files would give is anyone's guess
    check_weights(weights, sha256, recorded)
    check_settings(source, recorded)
    model, notes = _from_files(name, source)
    if not Path(source).is_dir():  # a hub id, whose files may have been downloaded just now
        check_settings(source, recorded)
    files = settings_sha256(source)
    return Encoder(name, model.eval().to(device or "cpu"), source, notes, sha256, files=files)


def _random(name: str, seed: int, device: str | None, recorded: Recorded | None) -> Encoder:
    """Build a `random:` encoder; with a named tokenizer it can be trained on text."""
    check_name(name)
    architecture, named = random_parts(name)
    encoder = Encoder(name, None)  # its model depends on the tokenizer
    tokenizer = None
    if named is not None and device != "meta":
        source = encoder.named_tokenizer = _tokenizer_source(named)
        if Path(named).is_dir():
            encoder.name = f"{RANDOM}{architecture}@{source}"  # in full: a bundle must find it from anywhere
        check_settings(source, recorded)
        tokenizer = encoder.tokenizer
        if not Path(source).is_dir():  # a hub id, whose files may have been downloaded just now
            check_settings(source, recorded)
        encoder.files = settings_sha256(source)
    # drawn on the CPU whatever the device, so that a seed means the same weights everywhere
    model = random_encoder(architecture, seed, meta=device == "meta", tokenizer=tokenizer)
    encoder.model = model.eval().to(device or "cpu")
    return encoder


def as_encoder(
    encoder: Any, *, seed: int = 0, device: str | None = None, recorded: Recorded | None = None
) -> Encoder:
    """Return an `Encoder` from a name, a folder, an `Encoder`, or a Hugging Face model."""
    if isinstance(encoder, str | Path):
        return load_encoder(encoder, seed=seed, device=device, recorded=recorded)
    if not isinstance(encoder, Encoder):
        if not hasattr(encoder, "state_dict"):
            raise WeftError(f"encoder: expected a name, a folder or a Hugging Face model; found {encoder!r}")
        encoder = Encoder(type(encoder).__name__, encoder)
    if device == "meta":
        raise WeftError(
            f"encoder {encoder.name!r} is loaded; on the meta device only random:ARCHITECTURE works"
        )
    if device is not None:
        encoder.model.to(device)
    return encoder


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase | None:
    """Load an encoder's tokenizer without the encoder; None for `random:` architectures that name none."""
    name = str(name)
    if name.startswith(RANDOM):
        named = random_parts(name)[1]
        return None if named is None else tokenizer_from_files(name, _tokenizer_source(named))
    return tokenizer_from_files(name, _source(name))


def _tokenizer_source(name: str) -> str:
    """Return the folder or hub id of a named tokenizer; its folder needs no weights and no config.json."""
    return str(Path(name).resolve()) if name not in PACKAGES and Path(name).is_dir() else _source(name)


def _source(name: str) -> str:
    """Return the folder or hub id of an encoder's files."""
    if name in PACKAGES:
        return str(_verified_folder(name))
    if Path(name).is_dir():
        return _checked_folder(Path(name).resolve())  # a bundle must find it from anywhere
    check_reachable(name)
    return name


def check_reachable(name: str | Path) -> None:
    """Refuse an encoder that cannot be loaded: no such folder, or neither in the cache nor on a hub in reach.

    Imports no torch, and takes at most `weft.utils.hub.SECONDS`.

    Args:
        name: as in `load_encoder`.
    """
    name = str(name)
    if name in PACKAGES:
        package_folder(name)
        return
    if Path(name).is_dir():
        return
    check_name(name)
    if name.startswith(RANDOM):
        if tokenizer := random_parts(name)[1]:
            check_reachable(tokenizer)
        return
    if model_in_cache(name):
        return
    if problem := hub_problem():
        raise WeftError(
            f"encoder {name!r} is not a folder or a built-in encoder, it is not in the cache of Hugging "
            f"Face, and the hub cannot be reached ({problem})\n  check the spelling and the network, pass "
            "the folder of a downloaded model, or use a built-in encoder; "
            f"{did_you_mean(name, _built_in(name))}"
        )


def _built_in(name: str) -> list[str]:
    """The encoders to suggest; random ones have no tokenizer, so only to someone who asks for one."""
    random = [RANDOM + architecture for architecture in ARCHITECTURES]
    return [*PACKAGES, *(random if name.startswith(RANDOM.rstrip(":")) else [])]


def weights_sha256(model: Any) -> str:
    """Return the sha256 of a model's tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _verified_folder(name: str) -> Path:
    """Return the folder of a built-in encoder, whose files are compared with their hashes."""
    folder, package = package_folder(name), PACKAGES[name]
    if (wrong := package.wrong(folder)) is not None:
        file, sha256 = wrong
        raise WeftError(
            f"encoder {name!r}: {folder / file} is not the expected file.\n"
            f"  sha256 found    {sha256}\n  sha256 expected {package.files[file]}\n"
            f"  type: {package.again(name)}"
        )
    return folder


def _checked_folder(folder: Path) -> str:
    if not (folder / "config.json").is_file():
        files = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise WeftError(f"encoder folder {str(folder)!r} has no config.json; it holds: {files}")
    return str(folder)


def _from_files(name: str, source: str) -> tuple[Any, tuple[str, ...]]:
    try:
        model, lacking, notes = model_from_files(name, source)
    except NotOnHub as failed:
        raise WeftError(
            f"encoder {name!r} is not a folder or a built-in encoder, and could not be loaded from "
            f"the hub: {failed}\n  check the spelling and the network, or pass the folder "
            f"of a downloaded model; {did_you_mean(name, _built_in(name))}"
        ) from failed
    missing = sorted(lacking)
    if missing and all(key.startswith("pooler.") for key in missing):
        # a random pooler, frozen under most methods, would silently degrade every head
        model.pooler = None
        note = f"encoder {name!r} has no weights for its pooler: it is left out, and pooled is hidden[:, 0]"
        return model, (*notes, note)
    if missing:
        raise WeftError(
            f"encoder {name!r} lacks the weights of {len(missing)} parameters, first of them {missing[0]!r}: "
            "the checkpoint is incomplete or belongs to a different architecture"
        )
    return model, notes
