"""The methods of `Model` that call higher packages: predict, save, count parameters, merge, compact."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
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
    from weft.workflows.evaluate import Evaluation


class ModelFacade:
    """The base class of `Model` with these methods. Each docstring names the function that does the work."""

    def __repr__(self) -> str:
        """A few lines; `print(model.encoder)` lists the encoder's modules."""
        from weft.model.accounting.summary import summary

        return summary(self._model)

    @property
    def _model(self) -> Model:
        """This object, as a `Model`."""
        return cast("Model", self)

    @property
    def encoders(self) -> list[nn.Module]:
        """The encoder of all tasks, as a list of one; with `separate`, one encoder per task."""
        encoder: Any = self._model.encoder
        return list(encoder.values()) if self._model.method.separate else [encoder]

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the encoder."""
        return self._model.encoder_source.tokenizer

    @property
    def captures(self) -> Captures:
        """The forward passes captured as CUDA graphs; see `capture`. Created on first use."""
        captures: Captures | None = self._model.__dict__.get("_captures")
        if captures is None:
            from weft.inference.captures import Captures

            captures = self._model.__dict__.setdefault("_captures", Captures())
        return captures

    def predict(
        self,
        requests: Any,
        texts: Any = None,
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> Any:
        """Predict the texts of one task, or (task, text) requests of any mix; see `weft.inference.predict`.

        Example:
            >>> model.predict("reviews", ["A wonderful film.", "Too long."])      # a list of two answers
            >>> model.predict("reviews", "A wonderful film.")["label"]            # one text: one answer
            'good'
            >>> model.predict("rte", [("It rains.", "It is wet.")])               # a pair is a tuple
            >>> model.predict([("reviews", "Too long."), ("rte", ("It rains.", "It is wet."))])

        Args:
            requests: the name of a task; or a list of (task, text), without `texts`.
            texts: the texts of that task: one, a list, a column of a data frame, or a data frame that has the
                task's columns.
            batch_size: maximum rows per pass.
            precision: `float32` or `bf16`.

        Returns:
            One dict per text, in their order; for one text (a string, tuple or dict) its dict alone.
        """
        from weft.inference.calls import requests_of_task
        from weft.inference.predict import predict

        if isinstance(texts, int):  # the batch size was the second argument before there were `texts`
            texts, batch_size, precision = None, texts, precision or batch_size
        if texts is None:
            return predict(self._model, requests, batch_size, precision)
        listed, single = requests_of_task(self._model, requests, texts)
        answers = predict(self._model, listed, batch_size, precision)
        return answers[0] if single else answers

    def predict_stream(
        self,
        requests: Iterable[Any],
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers of `predict` while the requests are read; see `weft.inference.stream`."""
        from weft.inference.stream import predict_stream

        return predict_stream(self._model, requests, batch_size, precision)

    def predict_all(
        self,
        texts: Any,
        tasks: str | Sequence[str] | None = None,
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> Any:
        """Predict each text for many tasks: one dictionary per text; see `weft.inference.predict_all`."""
        from weft.inference.predict_all import predict_all

        return predict_all(self._model, texts, tasks, batch_size, precision)

    def evaluate(self, tasks: Any = None, **settings: Any) -> Evaluation:
        """Evaluate the model on the labelled rows of its tasks; see `weft.evaluate`.

        Example:
            >>> model.evaluate("run.yaml")["tasks"]["rte"]
            {'accuracy': 0.71}
            >>> model.evaluate("run.yaml", report=True)["errors"]["tasks"]["rte"]["wrong"]
            80

        Args:
            tasks: the data: a run file or task file, a `Task`, a `RunFile`, or a list of these; by default
                the files of the model's tasks.
            settings: passed to `weft.evaluate`: `split`, `rows`, `report`, `predictions`, `calibrate`, ….
        """
        from weft.workflows.evaluate import evaluate

        return evaluate(self._model, tasks, **settings)

    def embed(
        self,
        texts: str | Iterable[Any],
        task: str | None = None,
        normalize: bool = False,
        batch_size: int | None = None,
        precision: Precision | None = None,
    ) -> Tensor:
        """Return one vector per text, [N, d], as a task's head reads it; see `weft.inference.embed`.

        One text as a string gives one vector, [d].
        """
        from weft.inference.embed import embed

        return embed(self._model, texts, task, normalize, batch_size, precision)

    def capture(
        self,
        precision: Precision = "float32",
        compiled: bool = False,
        lengths: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Prepare inference on a GPU: capture forward passes as CUDA graphs; see `weft.inference.warm_up`."""
        from weft.inference.warm_up import capture

        capture(self._model, precision, compiled, lengths, rows)

    def release(self) -> None:
        """Free all captured forward passes and their memory; inference captures again if that is faster."""
        with self._model.lock:
            self._model.captures.release()

    @property
    def trunk_depth(self) -> int:
        """The number of lowest blocks whose output is the same for every task; see `weft.model.trunk`."""
        from weft.model.trunk import trunk_depth

        return trunk_depth(self._model)

    def save(self, folder: str | Path, with_encoder: bool = False) -> Path:
        """Write the model as a bundle; see `weft.bundle`."""
        from weft.bundle.save import save

        return save(self._model, folder, with_encoder)

    def save_pretrained(self, folder: str | Path, with_encoder: bool = False) -> Path:
        """Write the model as a bundle: an alias of `save` with the name that Hugging Face and PEFT use."""
        return self.save(folder, with_encoder)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **settings: Any) -> Model:
        """Load a bundle: an alias of `weft.load` with the name that Hugging Face and PEFT use.

        Example:
            >>> model = weft.Model.from_pretrained("runs/first")    # a bundle, or a run's folder

        Args:
            folder: a bundle, or a run's folder that holds one.
            settings: passed to `weft.load`: `encoder`, `device`, `kernels`.
        """
        from weft.bundle.load import load

        return load(folder, **settings)

    def print_trainable_parameters(self) -> None:
        """Print the number of trainable parameters, heads included, in the format of PEFT.

        `print(model.ledger())` prints the counts by task, without heads.
        """
        from weft.model.accounting.summary import trainable_line

        print(trainable_line(self._model))

    def ledger(self, basis: int | None = None) -> Ledger:
        """Count the parameters by owner: a dictionary that prints as a table; see `Ledger`."""
        from weft.model.accounting.ledger import count

        return count(self._model, basis)

    def merge(self, task: str) -> nn.Module:
        """Return a plain Hugging Face encoder that computes the hidden states of this model for one task.

        Its `save_pretrained` saves the tokenizer too.
        """
        from weft.encoder.saving import saving_tokenizer
        from weft.model.transforms.merge import merge

        model = self._model
        index = model.task_id(task)
        if model.method.separate:
            task_encoder: nn.Module = model.encoder[task_owner(task)]  # type: ignore[index]
            plain = unweave(copy.deepcopy(task_encoder)).requires_grad_(False).eval()
        else:
            plain = merge(model.encoder, model.placements, index)
        return saving_tokenizer(plain, model.encoder_source.tokenizer_source)

    def compact(self) -> Model:
        """Return the model without components closed by L0 gates; see `weft.model.transforms.compact`."""
        from weft.model.transforms.compact import compact

        return compact(self._model)
