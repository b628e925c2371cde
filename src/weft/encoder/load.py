"""Loads an encoder by hub id, folder, installed package, or `random:ARCHITECTURE[@TOKENIZER]`."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.encoder.catalogue import (
    ARCHITECTURES,
    PACKAGES,
    RANDOM,
    Package,
    check_has_tokenizer,
    check_name,
    random_encoder,
    random_parts,
)
from weft.errors import WeftError, did_you_mean
from weft.utils.hub import hub_problem, model_in_cache, offline_if

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
        named_tokenizer: the folder or hub id of the tokenizer, if the name of a `random:` encoder has one.
    """

    name: str
    model: PreTrainedModel
    source: str | None = None
    notes: tuple[str, ...] = ()
    sha256: str | None = None
    travels: bool = False
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
        settings = json.loads(file.read_text(encoding="utf-8"))
        names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
        return next((pool for key, pool in names.items() if settings.get(key)), None)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, with its own padding and truncation off: weft does both when it makes batches."""
        if self.tokenizer_source is None:
            check_has_tokenizer(self.name)
            raise WeftError(f"encoder {self.name!r} has no tokenizer: it has an architecture and no files")
        return _tokenizer(self.name, self.tokenizer_source)


def load_encoder(name: str | Path, *, seed: int = 0, device: str | None = None) -> Encoder:
    """Load an encoder in float32.

    Args:
        name: a folder, an installed package (`minilm`), a hub id, or `random:ARCHITECTURE[@TOKENIZER]`.
        seed: the random seed of the weights of `random:` encoders.
        device: the device to put it on; `meta` works for `random:` only.
    """
    name = str(name)
    if name.startswith(RANDOM):
        return _random(name, seed, device)
    if device == "meta":
        raise WeftError(
            f"encoder {name!r} has weights to load; on the meta device only random:ARCHITECTURE works"
        )
    source = _source(name)
    name = source if Path(name).is_dir() else name
    model, notes = _from_files(name, source)
    single = Path(source) / "model.safetensors"
    sha256 = file_sha256(single) if single.is_file() else None
    return Encoder(name, model.eval().to(device or "cpu"), source, notes, sha256)


def _random(name: str, seed: int, device: str | None) -> Encoder:
    """Build a `random:` encoder; with a named tokenizer it can be trained on text."""
    check_name(name)
    architecture, named = random_parts(name)
    encoder = Encoder(name, None)  # its model depends on the tokenizer
    if named is not None and device != "meta":
        encoder.named_tokenizer = _tokenizer_source(named)
        if Path(named).is_dir():
            # in full: a bundle must find it from anywhere
            encoder.name = f"{RANDOM}{architecture}@{encoder.named_tokenizer}"
    tokenizer = None if encoder.named_tokenizer is None else encoder.tokenizer
    # drawn on the CPU whatever the device, so that a seed means the same weights everywhere
    model = random_encoder(architecture, seed, meta=device == "meta", tokenizer=tokenizer)
    encoder.model = model.eval().to(device or "cpu")
    return encoder


def as_encoder(encoder: Any, *, seed: int = 0, device: str | None = None) -> Encoder:
    """Return an `Encoder` from a name, a folder, an `Encoder`, or a Hugging Face model."""
    if isinstance(encoder, str | Path):
        return load_encoder(encoder, seed=seed, device=device)
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


VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tokenizer.model"),
)
"""Files that may hold a tokenizer's vocabulary; every tokenizer has at least one of them."""


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase | None:
    """Load an encoder's tokenizer without the encoder; None for `random:` architectures that name none."""
    name = str(name)
    if name.startswith(RANDOM):
        named = random_parts(name)[1]
        return None if named is None else _tokenizer(name, _tokenizer_source(named))
    return _tokenizer(name, _source(name))


def lacks_tokenizer(source: str) -> bool:
    """Return whether an encoder's source is a folder without tokenizer files."""
    folder = Path(source)
    return folder.is_dir() and not any((folder / file).is_file() for file in VOCABULARIES)


def _tokenizer_source(name: str) -> str:
    """Return the folder or hub id of a named tokenizer; its folder needs no weights and no config.json."""
    return str(Path(name).resolve()) if name not in PACKAGES and Path(name).is_dir() else _source(name)


def _source(name: str) -> str:
    """Return the folder or hub id of an encoder's files."""
    if name in PACKAGES:
        return str(_package_folder(name, PACKAGES[name]))
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
    if name in PACKAGES or Path(name).is_dir():
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
            f"encoder {name!r} is not a folder or an installed package, it is not in the cache of Hugging "
            f"Face, and the hub cannot be reached ({problem})\n  check the spelling and the network, pass "
            "the folder of a downloaded model, or use a built-in encoder; "
            f"{did_you_mean(name, _built_in(name))}"
        )


def _built_in(name: str) -> list[str]:
    """The encoders to suggest; random ones have no tokenizer, so only to someone who asks for one."""
    random = [RANDOM + architecture for architecture in ARCHITECTURES]
    return [*PACKAGES, *(random if name.startswith(RANDOM.rstrip(":")) else [])]


def _on_hub(source: str) -> AbstractContextManager[None]:
    """Inside, a hub id is read from the cache alone if the hub cannot be reached."""
    return offline_if(None if Path(source).exists() else hub_problem())


def _tokenizer(name: str, source: str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    if lacks_tokenizer(source):
        # transformers would build a tokenizer of five special tokens, to which every word is unknown
        raise WeftError(
            f"the tokenizer of encoder {name!r} is missing: {source} has none of {', '.join(VOCABULARIES)}; "
            "put the tokenizer's files there"
        )
    try:
        with _on_hub(source):
            tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, ImportError) as failed:
        raise WeftError(
            f"the tokenizer of encoder {name!r} could not be loaded: {_first_line(failed)}"
        ) from failed
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # sentence encoders save both in tokenizer.json (all-MiniLM: 128), and they would apply to every call
        backend.no_padding()
        backend.no_truncation()
    return tokenizer


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_sha256(model: Any) -> str:
    """Return the sha256 of a model's tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _package_folder(name: str, package: Package) -> Path:
    spec = importlib.util.find_spec(package.module)
    if spec is None or not spec.submodule_search_locations:
        raise WeftError(
            f"encoder {name!r} needs the Python package that contains its weights; type: {package.install}"
        )
    folder = Path(spec.submodule_search_locations[0]) / package.folder
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise WeftError(f"encoder {name!r}: {weights} is missing; type: {package.install} --force-reinstall")
    sha256 = file_sha256(weights)
    if sha256 != package.sha256:
        raise WeftError(
            f"encoder {name!r}: {weights} is not the expected file.\n"
            f"  sha256 found    {sha256}\n  sha256 expected {package.sha256}\n"
            f"  type: {package.install} --force-reinstall --no-deps"
        )
    return folder


def _checked_folder(folder: Path) -> str:
    if not (folder / "config.json").is_file():
        files = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise WeftError(f"encoder folder {str(folder)!r} has no config.json; it holds: {files}")
    return str(folder)


def _from_files(name: str, source: str) -> tuple[Any, tuple[str, ...]]:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModel

    try:
        with torch.random.fork_rng(devices=[]), quiet(), _on_hub(source):
            torch.manual_seed(0)
            model, info = AutoModel.from_pretrained(source, dtype=torch.float32, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as failed:
        if source == name and not Path(source).exists():
            raise WeftError(
                f"encoder {name!r} is not a folder or an installed package, and could not be loaded from "
                f"the hub: {_first_line(failed)}\n  check the spelling and the network, or pass the folder "
                f"of a downloaded model; {did_you_mean(name, _built_in(name))}"
            ) from failed
        raise WeftError(f"encoder {name!r} could not be loaded: {_first_line(failed)}") from failed
    missing = sorted(info["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        # a random pooler, frozen under most methods, would silently degrade every head
        model.pooler = None
        note = f"encoder {name!r} has no weights for its pooler: it is left out, and pooled is hidden[:, 0]"
        return model, (note,)
    if missing:
        raise WeftError(
            f"encoder {name!r} lacks the weights of {len(missing)} parameters, first of them {missing[0]!r}: "
            "the checkpoint is incomplete or belongs to a different architecture"
        )
    return model, ()


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Hugging Face's progress bar and loading report are off: weft reports what matters itself."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    hub_verbosity = hub_logging.get_verbosity()
    hub_logging.set_verbosity_error()

    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub_logging.set_verbosity(hub_verbosity)
        if bar:
            logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
