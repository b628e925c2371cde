"""Exporting one task as a folder that transformers loads, with equal answers and without weft."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from weft.bundle.updates import check_finite
from weft.encoder.anatomy import anatomy_of, sites_of
from weft.encoder.pretrained import quiet
from weft.errors import WeftError
from weft.interop.folder import (
    README_FILE,
    WEFT_FILE,
    check_place,
    merged_encoder,
    save_tokenizer,
    weft_settings,
)
from weft.interop.hf.card import card
from weft.interop.hf.classes import Answering, answering, configure
from weft.interop.hf.fit import Target, fit, put
from weft.interop.hf.forms import form_of
from weft.interop.hf.head import task_head
from weft.interop.hf.mean_block import FAMILIES, NOTE, write_mean_block
from weft.interop.hf.verify import largest_difference
from weft.interop.refusals import CannotExport, refused
from weft.utils.files import new_folder, write_json, write_text

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

NAME = "hf"


@dataclass(frozen=True, eq=False)
class Exported:
    """A task as a model of transformers.

    Attributes:
        model: the model, in eval mode, on the CPU.
        answering: the class that loads it, and its pipeline.
        note: how the task's head fits into the class, where that is not plain, for the card.
        half: whether it can run in float16.
        mean_block: whether a further block computes the mean of the tokens.
        difference: the largest difference between its logits and weft's, on random rows.
    """

    model: Any
    answering: Answering
    note: str | None
    half: bool
    mean_block: bool
    difference: float


def export_hf(model: Model, task: str, folder: str | Path) -> Path:
    """Write one task as a folder that a class of transformers loads, with equal answers.

    The method's adapters are merged into the encoder, and the task's head becomes the head of the family's
    class: `AutoModelForSequenceClassification` for `classify`, `multilabel`, `regress` and `rank`,
    `AutoModelForTokenClassification` for `tag`, `AutoModelForQuestionAnswering` for `span`, and
    `AutoModelForMultipleChoice` for `choose`. The last layer has the task's temperature, and the scale of a
    task with a range. The logits of both models are compared before anything is written. Methods and heads
    that have no place in such a class are refused with the reason; docs/exporting-hf.md lists them.

    Example:
        >>> weft.interop.export_hf(weft.load("runs/first"), "reviews", "exported/reviews")
        >>> transformers.pipeline("text-classification", "exported/reviews")("A wonderful film.")
        [{'label': 'good', 'score': 0.98}]

    Args:
        model: the model; it is put into eval mode.
        task: the task's name.
        folder: the folder to write; an earlier export is replaced, anything else is refused.
    """
    return write_hf(model, task, folder)[0]


def write_hf(model: Model, task: str, folder: str | Path) -> tuple[Path, Exported, bool]:
    """As `export_hf`; also return what was written, and whether there is a tokenizer."""
    folder = Path(folder)
    exported_task = model.tasks[model.task_id(task)]
    check_place(folder, NAME)
    try:
        exported = as_hf(model, exported_task)
    except CannotExport as reason:
        raise refused(model, task, NAME, reason) from None
    with new_folder(folder) as work:
        with quiet():
            exported.model.save_pretrained(work)
        has_tokenizer = save_tokenizer(model, work)
        write_json(work / WEFT_FILE, weft_settings(model, exported_task, NAME))
        write_text(work / README_FILE, card(model, exported_task, exported, has_tokenizer))
    return folder, exported, has_tokenizer


def as_hf(model: Model, task: Task) -> Exported:
    """Return one task as a model of transformers, whose logits were compared with weft's.

    Args:
        model: the model; it is put into eval mode.
        task: one of its tasks.

    Raises:
        CannotExport: the method, the kind or the head has no place in a class of transformers.
    """
    import transformers

    kind = answering(task)
    encoder = merged_encoder(model, task)
    head = task_head(model, task, encoder)
    check_finite(f"task {task.name!r} cannot be exported: its head", head.last.weight, head.last.bias)
    config: Any = copy.deepcopy(encoder.config)
    auto: Any = getattr(transformers, kind.auto_class)
    family = config.model_type
    if type(config) not in auto._model_mapping:
        what = kind.auto_class.removeprefix("AutoModelFor")
        raise CannotExport(f"transformers has no class for {what} of the family {family!r}")
    name = auto._model_mapping[type(config)].__name__
    form = form_of(kind.auto_class, family)
    if form is None:
        raise CannotExport(f"weft does not know how {name} computes its logits")
    configure(config, task)
    by_block = head.pool == "mean" and "mean" not in form.pools and family in FAMILIES
    if by_block:
        head = replace(head, pool="cls")
        config.num_hidden_layers += 1
    fitted = fit(head, Target(name, form, config, sites_of(encoder).width))
    for key, value in fitted.settings.items():
        setattr(config, key, value)
    with torch.random.fork_rng(devices=[]), quiet():
        exported = auto.from_config(config, trust_remote_code=False, dtype=torch.float32)
    _take_encoder(exported.base_model, encoder)
    if by_block:
        write_mean_block(exported.base_model)
    put(fitted, exported, form)
    notes = [note for note in (fitted.note, NOTE if by_block else None) if note is not None]
    note = "; ".join(notes).replace("{base}", exported.base_model_prefix) or None
    exported.eval()
    model.eval()
    return Exported(
        exported,
        kind,
        note,
        fitted.half and not by_block,
        by_block,
        largest_difference(model, task, exported, kind.auto_class),
    )


def _take_encoder(target: nn.Module, encoder: nn.Module) -> None:
    """Copy the weights of an encoder.

    One of the two may lack a pooler, which the head then writes; the target may have a further block.
    """
    missing, unexpected = target.load_state_dict(encoder.state_dict(), strict=False)
    anatomy = anatomy_of(encoder)
    further = f"{anatomy.blocks}.{sites_of(encoder).num_layers}"
    optional = tuple(f"{path}." for path in ("pooler", further, *anatomy.constant))
    if odd := [key for key in (*missing, *unexpected) if not key.startswith(optional)]:
        raise WeftError(
            f"{type(target).__name__} of the installed transformers has other parameters than the encoder, "
            f"first of them {odd[0]!r}; nothing was written"
        )
