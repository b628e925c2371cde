"""Answers requests by an exported graph with onnxruntime, through the same functions as a `Model`.

Tokenizing, batching and decoding are those of `weft.inference`; only the forward pass is onnxruntime's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from weft.core.layout import Layout
from weft.encoder.pretrained import tokenizer_from_files
from weft.errors import WeftError, did_you_mean
from weft.inference.captures import Captures
from weft.interop.onnx.folder import VECTORS, check_graph, read_exported
from weft.interop.onnx.packages import need
from weft.model.output import Output
from weft.utils.threads import RenewedLock

if TYPE_CHECKING:
    from weft.model.model import Model

SLOWER = ["SkipLayerNormFusion"]
"""Optimizations that onnxruntime leaves out: the norm and the sum before it take a third of the time of the
one operator that it would make of them (1.31, MiniLM on two cores)."""


class _OneGraph:
    """Stands in for a method: a graph has no parts that could run by themselves."""

    separate = False


class OnnxModel:
    """An exported model. It answers as the `Model` that it was exported from, and cannot be changed.

    It has those attributes of a `Model` that `weft.inference` and `weft.serving` read.

    Example:
        >>> model = OnnxModel("exported")
        >>> model.predict([("rte", ("It rains.", "It is wet.")), ("cola", "Cats sleeps.")])

    Args:
        folder: what `weft export --to onnx` has written.
        threads: the number of CPU threads of a pass; None: onnxruntime's choice, one per core.
        spinning: whether idle threads wait actively: faster, unless other work needs the cores.

    Attributes:
        exported: what tasks.json says.
        placements, num_layers: no adapters and no blocks that could run by themselves.
    """

    training = False
    is_bare = False
    kernels = "auto"
    method = _OneGraph()
    placements: tuple[Any, ...] = ()
    num_layers = 0

    def __init__(self, folder: str | Path, threads: int | None = None, spinning: bool = True) -> None:
        need("onnxruntime")
        self.exported = read_exported(folder)
        facts = self.exported.facts
        self.tasks = self.exported.tasks
        self.answers_by = self.exported.answers_by
        self.max_length: int = facts["max_length"]
        self.longest: int | None = facts.get("longest")
        self.pad_id: int = facts["pad_id"]
        self.tokenizer = tokenizer_from_files(str(folder), str(folder))
        self.captures = Captures()  # passes are captured on a GPU only
        self.lock = RenewedLock()
        self._device = torch.empty(0)
        self._spinning = spinning
        self._graph = check_graph(self.exported)
        self.use_threads(threads)

    def use_threads(self, threads: int | None) -> None:
        """Use this number of CPU threads in the following passes; no pass may run meanwhile."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        options.log_severity_level = 3
        if not self._spinning:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self.session = onnxruntime.InferenceSession(
                str(self._graph),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=SLOWER,
            )
        except Exception as wrong:  # onnxruntime has one exception per status, without a common base
            reason = str(wrong).strip().splitlines()[0]
            raise WeftError(f"{self._graph} cannot be loaded by onnxruntime: {reason}") from None
        inputs = {value.name for value in self.session.get_inputs()}
        outputs = {value.name for value in self.session.get_outputs()}
        if inputs != set(self.exported.inputs) or not set(self.answers_by) <= outputs:
            raise WeftError(
                f"{self._graph} has other inputs or outputs than tasks.json says; export it again"
            )

    def parameters(self) -> Iterator[Tensor]:
        """One tensor without values, by whose device callers find out where the model runs."""
        yield self._device

    def task_id(self, name: str) -> int:
        """The id of the task of this name."""
        names = [task.name for task in self.tasks]
        if name not in names:
            raise WeftError(f"task {name!r} is not in this model; {did_you_mean(name, names)}")
        return names.index(name)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        task: Tensor | None = None,
        *,
        example: Tensor | None = None,
        examples: int | None = None,
        trunk: None = None,
        **further: Tensor,
    ) -> Output:
        """Run rows of any mix of tasks, as `Model.forward` does.

        Args:
            input_ids: [R, L].
            attention_mask: [R, L]; None if nothing is padded.
            task: the task id of each row, [R]; optional if there is one task.
            example: the example of each row, [R]; by default each row is a separate example.
            examples: the number of examples; by default it is read from `example`.
            trunk: must be None: a graph always runs as a whole.
            further: `token_type_ids` and `marks`, [R, L]; those that the graph does not read are ignored.

        Returns:
            The logits; `pooled` holds the vectors that the tasks' heads read, [R, d], and `hidden` nothing.
        """
        rows = len(input_ids)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        task = torch.zeros(rows, dtype=torch.long) if task is None else task
        given = {"input_ids": input_ids, "attention_mask": mask, "task": task, **further}
        given["example"] = torch.arange(rows) if example is None else example
        feeds = {
            name: (given[name] if name in given else torch.zeros_like(input_ids)).numpy()
            for name in self.exported.inputs
        }
        names = [*self.answers_by, VECTORS]
        values = dict(zip(names, map(torch.from_numpy, self.session.run(names, feeds)), strict=True))
        layout = Layout(None, rows, mask.bool())
        if example is not None:
            count = int(example.max()) + 1 if examples is None else examples
            layout = Layout(example, count, mask.bool())
            task = task.new_zeros(count).index_copy(0, example, task)
        by_shape = {
            shape: values[shape][: layout.count] if by == "example" else values[shape]
            for shape, by in self.answers_by.items()
        }
        heads = tuple(own.head for own in self.tasks)
        hidden = torch.empty(*input_ids.shape, 0)
        return Output(hidden, values[VECTORS], None, by_shape, task, heads, layout, self.answers_by)

    __call__ = run

    def predict(self, requests: Any, texts: Any = None, batch_size: int | None = None) -> Any:
        """Predict the texts of one task, or (task, text) requests of any mix, as `Model.predict` does."""
        from weft.inference.calls import requests_of_task
        from weft.inference.predict import predict

        if texts is None:
            return predict(self._as_model, requests, batch_size)
        listed, single = requests_of_task(self._as_model, requests, texts)
        answers = predict(self._as_model, listed, batch_size)
        return answers[0] if single else answers

    def predict_stream(
        self, requests: Iterable[Any], batch_size: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers of `predict` while the requests are read."""
        from weft.inference.stream import predict_stream

        return predict_stream(self._as_model, requests, batch_size)

    def predict_all(
        self, texts: Any, tasks: str | Sequence[str] | None = None, batch_size: int | None = None
    ) -> Any:
        """Predict each text for many tasks, as `Model.predict_all` does; nothing is computed once for all."""
        from weft.inference.predict_all import predict_all

        return predict_all(self._as_model, texts, tasks, batch_size)

    def embed(
        self,
        texts: str | Iterable[Any],
        task: str | None = None,
        normalize: bool = False,
        batch_size: int | None = None,
        precision: str | None = None,
    ) -> Tensor:
        """Return one vector per text, [N, d], as the head of a task reads it; see `weft.inference.embed`.

        Raises:
            WeftError: no task is named. The graph has no encoder without adapters.
        """
        from weft.inference.embed import embed_with

        if task is None:
            names = ", ".join(own.name for own in self.tasks)
            raise WeftError(
                f"an ONNX graph always runs with a task's adapters; choose a task for the vectors: {names}"
            )
        self.task_id(task)
        return embed_with(self._as_model, texts, task, _vectors, self.width, normalize, batch_size)

    @property
    def width(self) -> int:
        """d, the width of the vectors."""
        shape = next(value.shape for value in self.session.get_outputs() if value.name == VECTORS)
        return int(shape[-1])

    @property
    def _as_model(self) -> Model:
        return cast("Model", self)


def _vectors(output: Output) -> dict[str, Tensor]:
    """The vectors of a pass; see `OnnxModel.run`."""
    return {VECTORS: output.pooled}
