"""The methods of `Model` that call higher rooms: predictions, files, counts, and models made from it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from weft.core.stacked import task_owner
from weft.encoder.weave import unweave

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from weft.inference.captures import Captures
    from weft.inference.precision import Precision
    from weft.model.accounting.ledger import Ledger
    from weft.model.model import Model


class ModelFacade:
    """The uses of a `Model`, which inherits this; each is documented in full where it is carried out."""

    def __repr__(self) -> str:
        """A few lines; `print(model.encoder)` lists the encoder's modules."""
        from weft.model.accounting.summary import summary

        return summary(self._model)

    @property
    def _model(self) -> Model:
        """The model that this is."""
        return cast("Model", self)

    @property
    def encoders(self) -> list[nn.Module]:
        """The one encoder of all tasks; under `separate` each task's, in their order."""
        held: Any = self._model.encoder
        return list(held.values()) if self._model.method.separate else [held]

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the encoder."""
        return self._model.encoder_source.tokenizer

    @property
    def captures(self) -> Captures:
        """The forward passes that run as CUDA graphs; see `capture`. Made when they are first needed."""
        found: Captures | None = self._model.__dict__.get("_captures")
        if found is None:
            from weft.inference.captures import Captures

            found = self._model.__dict__.setdefault("_captures", Captures())
        return found

    def predict(
        self,
        requests: Iterable[Any],
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> list[dict[str, Any]]:
        """Answers to (task, text) or (task, (text, text)), in any order; see `weft.inference.predict`."""
        from weft.inference.predict import predict

        return predict(self._model, requests, batch_size, precision)

    def predict_all(
        self,
        texts: Sequence[Any],
        tasks: Sequence[str] | None = None,
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> list[dict[str, dict[str, Any]]]:
        """For each text the answers of many tasks, by name; see `weft.inference.predict_all`."""
        from weft.inference.predict_all import predict_all

        return predict_all(self._model, texts, tasks, batch_size, precision)

    def embed(
        self,
        texts: Iterable[Any],
        task: str | None = None,
        normalize: bool = False,
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> Tensor:
        """One vector per text, [N, d], as a task's head reads it; see `weft.inference.embed`."""
        from weft.inference.embed import embed

        return embed(self._model, texts, task, normalize, batch_size, precision)

    def capture(
        self,
        precision: Precision = "float32",
        compiled: bool = False,
        lengths: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Prepare inference on a GPU: capture the shapes of batches as CUDA graphs; see `weft.inference`."""
        from weft.inference.warm_up import capture

        capture(self._model, precision, compiled, lengths, rows)

    def release(self) -> None:
        """Drop all captured passes and their memory; inference captures anew where that pays."""
        with self._model.lock:
            self._model.captures.release()

    @property
    def trunk_depth(self) -> int:
        """How many of the lowest blocks give the same for every task; see `weft.model.trunk`."""
        from weft.model.trunk import trunk_depth

        return trunk_depth(self._model)

    def save(self, folder: str | Path, with_encoder: bool = False) -> Path:
        """Write the model as a bundle; see `weft.bundle`."""
        from weft.bundle.save import save

        return save(self._model, folder, with_encoder)

    def save_pretrained(self, folder: str | Path, with_encoder: bool = False) -> Path:
        """The same as `save`, under the name that Hugging Face and PEFT use."""
        return self.save(folder, with_encoder)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **settings: Any) -> Model:
        """The same as `weft.load`, under the name that Hugging Face and PEFT use.

        Example:
            >>> model = weft.Model.from_pretrained("runs/first")    # a bundle, or a run's folder

        Args:
            folder: a bundle, or a run's folder that holds one.
            settings: what `weft.load` takes: `encoder`, `device`, `kernels`.
        """
        from weft.bundle.load import load

        return load(folder, **settings)

    def print_trainable_parameters(self) -> None:
        """Print how many parameters train, heads included, in the format that PEFT prints.

        `print(model.ledger())` shows the same by task, with heads left out.
        """
        from weft.model.accounting.summary import trainable_line

        print(trainable_line(self._model))

    def ledger(self, basis: int | None = None) -> Ledger:
        """How many parameters it holds, for whom: a dictionary that prints as a table; see `Ledger`."""
        from weft.model.accounting.ledger import count

        return count(self._model, basis)

    def merge(self, task: str) -> nn.Module:
        """A plain Hugging Face encoder that computes, for this task, the hidden states of this model."""
        from weft.model.transforms.merge import merge

        model = self._model
        index = model.task_id(task)
        if model.method.separate:
            own: nn.Module = model.encoder[task_owner(task)]  # type: ignore[index]
            return unweave(copy.deepcopy(own)).requires_grad_(False).eval()
        return merge(model.encoder, model.placements, index)

    def compact(self) -> Model:
        """The same model without its shut components; see `weft.model.transforms.compact`."""
        from weft.model.transforms.compact import compact

        return compact(self._model)
