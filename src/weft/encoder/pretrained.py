"""Makes encoders and tokenizers from files of any origin; no other module reads a checkpoint's folder.

transformers' own loading follows what a folder says: code that comes with it, adapters of other models, files
of other names. Here weft reads the files itself, checks them, and passes transformers a configuration and
tensors. No code of a folder ever runs, and nobody is asked whether it should.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.encoder.checkpoint_files import find_weights, read_weights
from weft.encoder.config_file import (
    CONFIG_FILE,
    CUSTOM_CODE,
    TOKENIZER_CONFIG_FILE,
    EncoderConfig,
    check_tokenizer_config,
    custom_code_notes,
    read_encoder_config,
)
from weft.encoder.esm_tokenizer import SLOW, fast_esm
from weft.encoder.families import FAMILIES
from weft.encoder.files import VOCABULARIES
from weft.errors import WeftError
from weft.utils.hub import hub_problem, offline_if
from weft.utils.plain_files import check_plain_top

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BUFFERS = 100_000_000
"""The most values that the buffers of an encoder may have; they are not in its files."""
SUBFOLDERS = ("1_Pooling", "additional_chat_templates")
"""Subfolders of an encoder that are read."""


class NotOnHub(WeftError):
    """A hub id could not be loaded; its text is only the reason."""


def model_from_files(name: str, source: str) -> tuple[PreTrainedModel, set[str], tuple[str, ...]]:
    """Load an encoder in float32.

    Args:
        name: the requested name, for messages.
        source: the folder or hub id of its files.

    Returns:
        The model, the parameters that its files lack, and notes for the user.

    Raises:
        NotOnHub: the hub does not have it.
    """
    import torch
    from transformers import CONFIG_MAPPING

    checked, tensors = _read(name, source)
    with torch.random.fork_rng(devices=[]), quiet(), _answered(f"encoder {name!r} could not be loaded"):
        torch.manual_seed(0)
        config = CONFIG_MAPPING[checked.model_type].from_dict(checked.settings)
        config._name_or_path = source
        model_class = check_size(config, tensors, checked.path)
        model, info = model_class.from_pretrained(
            None, config=config, state_dict=tensors, dtype=torch.float32, output_loading_info=True
        )
        model.name_or_path = model.config._name_or_path = source
    constant = tuple(f"{path}." for path in FAMILIES[checked.model_type].constant)
    # buffers are computed: the frequencies of rotary positions
    weights = {name for name, _ in model.named_parameters() if not name.startswith(constant)}
    return model, weights & set(info["missing_keys"]), checked.notes


def check_size(config: Any, tensors: Mapping[str, Tensor], path: Path | str) -> type[PreTrainedModel]:
    """Refuse a configuration that describes a larger encoder than the weights; return the encoder's class.

    The encoder is built on the meta device, without memory, so that a wrong number costs nothing.

    Args:
        config: a configuration of transformers.
        tensors: the weights.
        path: where the configuration comes from, for messages.
    """
    import torch
    from transformers import AutoModel

    limits = FAMILIES[config.model_type].limits
    layers = getattr(config, "num_hidden_layers" if limits is None else limits.layers[0])
    if not isinstance(layers, int) or layers > len(tensors):
        raise WeftError(f"{path}: {layers!r} layers; the weights have only {len(tensors):,} tensors")
    with torch.device("meta"):
        model = AutoModel.from_config(config, trust_remote_code=False)
    # a pooler may be missing, and so may what is computed
    optional = ("pooler", *FAMILIES[config.model_type].constant)
    expected = sum(
        p.numel()
        for name, p in model.named_parameters()
        if not name.startswith(tuple(f"{o}." for o in optional))
    )
    stored = sum(tensor.numel() for tensor in tensors.values())
    if expected > stored:
        raise WeftError(
            f"{path} describes an encoder of {expected:,} parameters; the weights beside it have {stored:,}: "
            "the checkpoint is incomplete or belongs to a different architecture"
        )
    if sum(buffer.numel() for buffer in model.buffers()) > BUFFERS:
        raise WeftError(f"{path}: max_position_embeddings or another size is too large to be true")
    return type(model)


def tokenizer_from_files(name: str, source: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer, with its own padding and truncation off: weft does both when it makes batches.

    Args:
        name: the encoder's name, for messages.
        source: the folder or hub id of its files.
    """
    if lacks_tokenizer(source):
        # transformers would build a tokenizer of five special tokens, to which every word is unknown
        raise WeftError(
            f"the tokenizer of encoder {name!r} is missing: {source} has none of {', '.join(VOCABULARIES)}; "
            "put the tokenizer's files there"
        )
    tokenizer = saved_tokenizer(name, source)
    with _answered(f"the tokenizer of encoder {name!r} cannot be used"):
        if type(tokenizer).__name__ == SLOW:
            tokenizer = fast_esm(tokenizer)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is not None:
            # sentence encoders save both in tokenizer.json (all-MiniLM: 128), and they apply to every call
            backend.no_padding()
            backend.no_truncation()
    return tokenizer


def saved_tokenizer(name: str, source: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer exactly as it was saved; the arguments are those of `tokenizer_from_files`."""
    from transformers import CONFIG_MAPPING, AutoTokenizer

    what = f"the tokenizer of encoder {name!r} could not be loaded"
    with on_hub(source):
        folder = Path(source)
        if folder.is_dir():
            check_plain_top(folder, "an encoder", SUBFOLDERS)
            paths = [folder / file for file in (CONFIG_FILE, TOKENIZER_CONFIG_FILE)]
        else:
            try:
                fetched = [_fetched(source, file, None) for file in (CONFIG_FILE, TOKENIZER_CONFIG_FILE)]
            except NotOnHub as wrong:
                raise WeftError(f"{what}: {wrong}") from None
            paths = [path for path in fetched if path is not None]
        custom: tuple[str, ...] = ()
        settings: dict[str, Any] = {}
        for path in filter(Path.is_file, paths):
            if path.name == CONFIG_FILE:
                checked = read_encoder_config(path, name)
                # passed on: transformers would read the file itself, and follow all of its keys
                settings["config"] = CONFIG_MAPPING[checked.model_type].from_dict(checked.settings)
            else:
                check_tokenizer_config(path)
            custom = custom_code_notes(path.parent, name)
        with _answered(what, f" ({custom[-1]})" if custom else ""):
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **settings)
            tokenizer.init_kwargs.pop(CUSTOM_CODE, None)  # else a copy would name code that it does not have
            return tokenizer


def lacks_tokenizer(source: str) -> bool:
    """Return whether an encoder's source is a folder without tokenizer files."""
    folder = Path(source)
    return folder.is_dir() and not any((folder / file).is_file() for file in VOCABULARIES)


def on_hub(source: str) -> AbstractContextManager[None]:
    """Inside, a hub id is read from the cache alone if the hub cannot be reached."""
    return offline_if(None if Path(source).exists() else hub_problem())


def _read(name: str, source: str) -> tuple[EncoderConfig, dict[str, Tensor]]:
    """Read and check an encoder's configuration, then its weights."""
    folder = Path(source)
    if folder.is_dir():
        check_plain_top(folder, "an encoder", SUBFOLDERS)
        config = read_encoder_config(folder / CONFIG_FILE, name)
        return config, read_weights(find_weights(folder))
    with on_hub(source):
        path = _fetched(source, CONFIG_FILE, None)
        if path is None:
            raise NotOnHub(f"it has no {CONFIG_FILE}")
        config = read_encoder_config(path, name)
        # all files of one version: the folder of a snapshot is named by its commit
        commit = path.parent.name
        return config, read_weights(find_weights(path.parent, lambda file: _fetched(source, file, commit)))


def _fetched(source: str, file: str, revision: str | None) -> Path | None:
    """Download a file of a hub id, or take it from the cache; None if there is no such file."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(source, file, revision=revision))
    except LocalEntryNotFoundError as wrong:
        if file != CONFIG_FILE:
            return None  # without the hub: the cache is all there is
        raise NotOnHub(_first_line(wrong)) from None
    except EntryNotFoundError:
        return None
    except Exception as wrong:  # of the network, of the hub's answer, of the name
        raise NotOnHub(_first_line(wrong)) from None


@contextmanager
def _answered(what: str, hint: str = "") -> Iterator[None]:
    """Inside, whatever transformers raises over a strange file is a `WeftError`.

    Args:
        what: what failed, the beginning of the message.
        hint: the end of the message.
    """
    try:
        yield
    except (WeftError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failed:
        # a panic of tokenizers' Rust code is not an Exception
        if not isinstance(failed, Exception) and type(failed).__name__ != "PanicException":
            raise
        raise WeftError(f"{what}: {_first_line(failed)}{hint}") from failed


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


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
