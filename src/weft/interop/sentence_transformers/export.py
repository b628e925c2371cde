"""Exporting the vectors of one task as a folder of sentence-transformers, which is not needed to write it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.encoder.anatomy import sites_of
from weft.encoder.pretrained import quiet
from weft.errors import WeftError, did_you_mean
from weft.interop.folder import (
    README_FILE,
    WEFT_FILE,
    check_place,
    merged_encoder,
    save_tokenizer,
    weft_settings,
)
from weft.interop.hf.head import TOKENS, Layer, pooling_of, task_head
from weft.interop.refusals import CannotExport, refused
from weft.interop.sentence_transformers.card import card
from weft.interop.sentence_transformers.exporter import LOGITS, NAME, OUTPUTS
from weft.interop.sentence_transformers.prompts import prompts_of
from weft.utils.files import new_folder, write_json, write_text
from weft.utils.tensor_files import save_file

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

_MODULES = "sentence_transformers.models."
"""The package of the modules in modules.json; later releases still read this name."""
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "relu": "torch.nn.modules.activation.ReLU",
    "tanh": "torch.nn.modules.activation.Tanh",
}
_NO_PLACE = {
    "cosine": "its answer is the cosine of two texts that are encoded separately, which follows from the "
    "vectors; it has no head",
    "pair": "it encodes its two texts separately, and its head reads both vectors; a sentence encoder has "
    "one vector per text",
    "marked": "its head reads the marked words of a text, and a sentence encoder has no input for them",
    TOKENS: "its head reads every token, and a sentence encoder has one vector per text",
}
"""Why a head is no module of a sentence encoder, by what it reads."""


def export_sentence_transformers(
    model: Model, task: str, folder: str | Path, output: str = "vectors", normalize: bool = False
) -> Path:
    """Write one task as a folder that `SentenceTransformer` loads; its `encode` gives `model.embed`.

    The method's adapters are merged into the encoder. `1_Pooling` pools as the task does; a pooler is a
    `Dense` module with tanh. A template such as `"query: {text}"` becomes a prompt, with which `encode` fills
    it.

    Example:
        >>> weft.interop.export_sentence_transformers(model, "sts", "exported/sts")
        >>> vectors = SentenceTransformer("exported/sts").encode(texts)     # model.embed(texts, "sts")

    Args:
        model: the model.
        task: the task's name.
        folder: the folder to write; an earlier export is replaced, anything else is refused.
        output: `vectors`: what the task's head reads, as `model.embed` returns it. `logits`: the head too, as
            further `Dense` modules; the temperature and the scale of a task with a range are in the last one.
        normalize: whether vectors are divided by their norms, as by `model.embed(normalize=True)`.
    """
    folder = Path(folder)
    if output not in OUTPUTS:
        raise WeftError(f"output {output!r} is unknown; {did_you_mean(output, OUTPUTS)}")
    exported = model.tasks[model.task_id(task)]
    check_place(folder, NAME)
    try:
        encoder: Any = merged_encoder(model, exported)
        pool, layers = _layers(model, exported, encoder, output)
        _check_tokenizer(model)
    except CannotExport as reason:
        raise refused(model, task, NAME, reason) from None
    with new_folder(folder) as work:
        with quiet():
            encoder.save_pretrained(work)
        save_tokenizer(model, work)
        _write_modules(work, sites_of(encoder).width, pool, layers, normalize)
        write_json(work / "sentence_bert_config.json", _transformer(model))
        write_json(
            work / "config_sentence_transformers.json",
            {"similarity_fn_name": "cosine"} | prompts_of(exported),
        )
        settings = {"output": output, "normalize": normalize}
        write_json(work / WEFT_FILE, weft_settings(model, exported, NAME) | settings)
        write_text(work / README_FILE, card(model, exported, output, normalize))
    return folder


def _layers(model: Model, task: Task, encoder: Any, output: str) -> tuple[str, list[Layer]]:
    """The pooling, `cls` or `mean`, and the layers after it."""
    if output != LOGITS:
        return pooling_of(model, task, encoder)
    reads = model.heads[task.head].reads
    if reads in _NO_PLACE:
        raise CannotExport(f"{_NO_PLACE[str(reads)]}; leave out output={LOGITS} to export the vectors")
    head = task_head(model, task, encoder)
    return head.pool, [*head.hidden, head.last]


def _check_tokenizer(model: Model) -> None:
    source = model.encoder_source
    if source.tokenizer_source is None and "tokenizer" not in vars(source):
        raise CannotExport("its encoder has no tokenizer, which sentence-transformers needs")


def _transformer(model: Model) -> dict[str, Any]:
    """The settings of the first module."""
    return {"max_seq_length": model.max_length, "do_lower_case": False}


def _write_modules(work: Path, width: int, pool: str, layers: list[Layer], normalize: bool) -> None:
    """Write modules.json and the folder of each module after the encoder."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    pooling = {"word_embedding_dimension": width}
    pooling |= {f"pooling_mode_{mode}": mode.startswith(pool) for mode in ("cls_token", "mean_tokens")}
    pooling |= {"pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}
    pooling |= {"include_prompt": True}
    (work / "1_Pooling").mkdir()
    write_json(work / "1_Pooling" / "config.json", pooling)
    for number, layer in enumerate(layers, len(modules)):
        folder = work / f"{number}_Dense"
        folder.mkdir()
        outputs, inputs = layer.weight.shape
        write_json(
            folder / "config.json",
            {
                "in_features": inputs,
                "out_features": outputs,
                "bias": True,
                "activation_function": _ACTIVATIONS[layer.activation],
            },
        )
        _save({"linear.weight": layer.weight, "linear.bias": layer.bias}, folder / "model.safetensors")
        modules.append((folder.name, "Dense"))
    if normalize:
        (work / f"{len(modules)}_Normalize").mkdir()
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
    write_json(
        work / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": _MODULES + kind}
            for number, (path, kind) in enumerate(modules)
        ],
    )


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    save_file({name: value.contiguous().to(torch.float32) for name, value in tensors.items()}, path)
