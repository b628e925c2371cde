"""The model: an encoder, a method and heads, where the task is data."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from weft.adapters.attention import name_attentions
from weft.adapters.by_site import by_site
from weft.core.layout import Layout
from weft.core.route import Route
from weft.core.stacked import task_owner
from weft.encoder.anatomy import longest_row, sites_of
from weft.encoder.body import Body, SeparateBodies, WovenBody
from weft.encoder.load import Encoder, weights_sha256
from weft.encoder.restart import restart_block
from weft.encoder.weavable import weavable
from weft.errors import WeftError, did_you_mean
from weft.facade import ModelFacade
from weft.kernels.dispatch import checked_setting
from weft.kernels.setting import Setting
from weft.methods import build_method
from weft.model.head_settings import HeadSettings
from weft.model.heads import build_heads, pool_of
from weft.model.inputs import Rows, checked_task, single_task
from weft.model.losses import example_weights
from weft.model.output import Output
from weft.model.pooling import Reads
from weft.model.row_order import OrderedBody, Prepares
from weft.model.targets import Targets
from weft.model.threads import ModelThreads
from weft.model.what_trains import pools_read, set_what_trains
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task, check_tasks
from weft.utils.forks import before_computing

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site
    from weft.model.trunk import Trunk


class Model(ModelFacade, ModelThreads, nn.Module):
    """One encoder, many tasks, one forward pass.

    Several threads may use one model at once: each pass has a separate route. Inference (`predict`,
    `predict_all`, evaluation) puts a model that is in training mode into eval mode and leaves it there; call
    `model.train()` before you continue training. Only one thread may train.

    Args:
        encoder: an argument or a result of `load_encoder`, or a Hugging Face encoder, which is changed in
            place.
        tasks: the tasks; a task's id is its position.
        method: a method, its name, its settings (`{"use": "lora", "rank": 4}`), or a list of these.
        pool: what heads read: `pooler`, `cls`, `mean`, `task_pooler` (one pooler per task), or `auto`: the
            mean for a sentence encoder whose files say so (minilm), else the pooler, else the first token. A
            pooler that no head reads does not train. A task may set a different pool for its head.
        head_dropout: dropout probability of the heads' input and between their layers, in training.
        head_layers: the number of layers of a head, 1 to 3, with ReLU between them.
        head_hidden: the width between them; None: the encoder's.
        head_start: the initial values of the heads' last layer: `random`, `zero`, or `probe`, which training
            fits to the data before the first step.
        max_length: the most tokens of a row in `predict`, by default at most 128; longer texts are truncated.
        seed: the random seed of all initial values.
        device: the device to put it on; `meta` counts parameters without memory (`random:` encoders).
        kernels: the strategy for per-task maps in batches of several tasks: `auto`, the cheapest one, or
            `reference`, with which a row's output is bit-identical when tasks are added.

    Attributes:
        encoder: the Hugging Face encoder, its names unchanged; one per task under `separate`.
        adapters: the method's adapters, by site.
        heads: the stacked heads, by shape.
        num_layers: the number of the encoder's blocks.
        answers_by: for each head shape, whether its logits are by `example`, `row` or `token`.
        targets: makes a batch's targets.
        longest: the longest row that it accepts, in tokens; None: any.
        is_bare: whether the adapters are off in this thread.
        lock: held while a thread runs the model under an engine; see `weft.model.threads`.
    """

    def __init__(
        self,
        encoder: str | Path | Encoder | nn.Module,
        tasks: Sequence[Task],
        method: object = "full",
        *,
        pool: str = "auto",
        head_dropout: float = 0.1,
        head_layers: int = 1,
        head_hidden: int | None = None,
        head_start: str = "probe",
        max_length: int | None = None,
        seed: int = 0,
        device: str | None = None,
        kernels: Setting = "auto",
    ) -> None:
        super().__init__()
        before_computing()
        self._begin_threads()
        settings = HeadSettings(
            pool=pool, dropout=head_dropout, layers=head_layers, hidden=head_hidden, start=head_start
        )
        self.tasks = tuple(settings.applied(task) for task in check_tasks(tasks))
        self.method = build_method(method)
        self.seed = seed
        self.kernels = checked_setting(kernels)
        self.head_dropout = settings.dropout
        self.head_start = settings.start
        encoder = weavable(encoder, seed=seed, device=device)
        self.encoder_source = encoder
        base = encoder.model
        sites = sites_of(base)
        if encoder.sha256 is None and base.device.type != "meta":
            encoder.sha256 = weights_sha256(base)  # now: the method may train these weights
        self.pool = pool_of(pool, encoder)
        read = pools_read(self.tasks, self.pool, encoder)
        if "pooler" not in read:
            # a pooler that no head reads must not train, nor be counted
            pools = " and ".join(map(repr, sorted(read)))
            sites.leave_out("pooler", f"the heads read {pools} (pool), and nothing reads the pooler")
        limits = [longest_row(base), *(part.longest_row for part in self.method.parts)]
        self.longest: int | None = min((limit for limit in limits if limit is not None), default=None)
        self.set_max_length(min(128, self.longest or 128) if max_length is None else max_length)
        self.pad_id: int = base.config.pad_token_id or 0
        names = [task.name for task in self.tasks]
        with torch.device(device or base.device):
            self.placements: list[tuple[Site, Adapter]] = list(self.method.weave(sites, names, seed))
            pooler = getattr(base, "pooler", None)
            self.heads = build_heads(
                self.tasks, sites.width, head_dropout, seed, self.pool, pooler, head_start
            )
        self.adapters = by_site(self.placements)
        name_attentions(self.adapters)
        restarted = sorted({n for part in self.method.parts for n in part.restarted(sites.num_layers)})
        set_what_trains(base, self.method, self.placements, read, restarted)
        for layer in restarted:
            restart_block(base, layer, seed)
        self.body: Body
        if self.method.separate:
            copies = [base, *(copy.deepcopy(base) for _ in names[1:])]
            # keyed by owner: a task's name may be that of an attribute of ModuleDict
            owners = [task_owner(name) for name in names]
            self.encoder: nn.Module = nn.ModuleDict(dict(zip(owners, copies, strict=True)))
            self.body = SeparateBodies(copies)
        else:
            self.encoder = base
            self.body = WovenBody(base, self.placements)
        self._ordered = OrderedBody(self.body, self.adapters, len(names))
        self.num_layers = sites.num_layers
        self._heads = tuple(task.head for task in self.tasks)
        self._kinds = {task.head: KINDS[task.kind]().of(task) for task in self.tasks}
        self.targets = Targets(self.tasks, self._kinds)
        self.answers_by = {shape: kind.answers_by for shape, kind in self._kinds.items()}
        # on the model's device: a forward pass must not wait for a copy from the host
        shapes = list(self.heads)
        index = torch.tensor([shapes.index(task.head) for task in self.tasks], device=device or base.device)
        self.register_buffer("_shape_of_task", index, persistent=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        task: Tensor | None = None,
        *,
        example: Tensor | None = None,
        examples: int | None = None,
        marks: Tensor | None = None,
        trunk: Trunk | None = None,
        layers: bool = False,
        attention: bool = False,
    ) -> Output:
        """Run rows of any mix of tasks through the model once.

        Args:
            input_ids: token ids, [R, L].
            attention_mask: 1 where a row has a token, [R, L]; None if nothing is padded.
            token_type_ids: segment ids, [R, L]; families without segments ignore them.
            task: the task id of each row, [R]; optional if there is one task. It may be on the CPU while
                the other inputs are on a device: if all rows have one task, no parameters are gathered then.
            example: the example of each row, [R], from 0 on without a gap; by default each row is a separate
                example. The task's kind decides what several rows mean: `classify` and `regress` take the
                mean of their logits, or read the two texts of a pair; `choose` and `rank` have one row per
                choice.
            examples: the number of examples; by default it is read from `example`, which waits for the
                device.
            marks: the marks that each token is in: 1, 2, 3 for both, else 0, [R, L]; for `marked` tasks.
            trunk: the stored output of the lowest blocks, which then do not run; see `weft.model.trunk`.
            layers: whether to collect `Output.layers`.
            attention: whether to collect `Output.attention`.
        """
        rows = Rows(input_ids, attention_mask, token_type_ids, task, example, marks)
        task = checked_task(rows, len(self.tasks), self.longest)
        mask = None if attention_mask is None else attention_mask.bool()
        wanted = layers or self.body.reads_layers
        collected: list[Tensor | None] | None = [None] * (self.num_layers + 1) if wanted else None
        single = single_task(task)
        task = task.to(input_ids.device, non_blocking=True)
        probabilities: dict[str, Tensor] | None = {} if attention else None
        route = Route(
            task, mask, collected, probabilities, single, self.is_bare, trunk, self.until, self.kernels
        )
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        with self.turn():
            hidden, pooled = self._ordered.encode(route, {k: v for k, v in inputs.items() if v is not None})
            layout = Layout(None, task.size(0), mask)
            if example is not None:
                example = example.to(input_ids.device)
                layout = Layout(example, int(example.max()) + 1 if examples is None else examples, mask)
                task = task.new_zeros(layout.count).index_copy(0, example, task)
            by_shape = self.answered(Reads(hidden, pooled, layout, marks), route)
        every = tuple(x for x in route.layers or () if x is not None) if layers else None
        shapes = self.get_buffer("_shape_of_task")
        about = self._heads, layout, self.answers_by, route.attention, shapes
        return Output(hidden, pooled, every, by_shape, task, *about)

    def answered(self, reads: Reads, route: Route) -> dict[str, Tensor]:
        """The logits of every head shape; see `Output.by_shape`."""
        by_shape = {shape: head(reads, route) for shape, head in self.heads.items()}
        for shape, by in self.answers_by.items():
            if by == "example":
                # a pair's head computes the same logits for both rows, each with a different dropout mask
                paired = self.heads[shape].reads in ("pair", "cosine")
                over = reads.layout.first if paired else reads.layout.mean
                by_shape[shape] = over(by_shape[shape])
        return by_shape

    def run(self, *inputs: Any, **more: Any) -> Output:
        """Call the model, with the arguments of `forward`."""
        output: Output = self(*inputs, **more)
        return output

    @property
    def preparing(self) -> list[Prepares]:
        """Modules that compute something for all blocks before the first block runs, in every pass."""
        return self._ordered.prepared

    @property
    def ordered(self) -> OrderedBody:
        """The body, whose rows are sorted by task while it runs if that makes some map faster."""
        return self._ordered

    def collate_labels(
        self, values: Sequence[Any], task: Tensor, example: Tensor | None = None, length: int = 0
    ) -> dict[str, Tensor]:
        """Return the targets of a batch's examples as one tensor per kind.

        Args:
            values: each example's target, as `Tokens.target` returns it: an id for `classify`, one or several
                numbers for `regress`; for kinds that answer by row or token a list with one entry per row.
            task: the task id of each example, [E].
            example: the example of each row, [R]; by default each row is a separate example.
            length: the length of the rows, L.
        """
        return self.targets.collate(values, task, example, length)

    def example_losses(self, output: Output, labels: Mapping[str, Tensor]) -> Tensor:
        """Return each example's loss, [E]: computed for every shape, then selected by the example's task."""
        for shape, kind in self._kinds.items():
            # if the number of examples depends on the data, a compiler cannot know that these are equal
            torch._check(output.by_shape[shape].size(0) == labels[kind.name].size(0))
        losses = {
            shape: kind.loss(output.by_shape[shape], labels[kind.name], output.layout)
            for shape, kind in self._kinds.items()
        }
        return output.of_own_shape(losses)

    def loss(self, output: Output, labels: Mapping[str, Tensor], weight: Tensor | None = None) -> Tensor:
        """Σ weight·ℓ over the examples.

        Args:
            output: the result of the forward pass.
            labels: the result of `collate_labels`.
            weight: [E]; by default the mean over the tasks present of each task's mean.
        """
        if weight is None:
            weight = example_weights(output.task)
        elif weight.shape != output.task.shape:
            expected, actual = list(output.task.shape), list(weight.shape)
            raise WeftError(f"weight: expected one per example, {expected}; found shape {actual}")
        return (self.example_losses(output, labels) * weight).sum()

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As `nn.Module.state_dict`; an error while the model is captured with compiled=True."""
        self.captures.check_plain()
        return super().state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As `nn.Module.load_state_dict`; an error while the model is captured with compiled=True."""
        self.captures.check_plain()
        return super().load_state_dict(*args, **kwargs)

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`; an error while the model is captured with compiled=True."""
        if mode:
            self.captures.check_plain()
        return super().train(mode)

    def set_max_length(self, max_length: int) -> None:
        """Set the length that texts are truncated to; more than the encoder's positions is an error."""
        if max_length < 2:
            raise WeftError(f"max_length {max_length}: expected at least 2")
        if self.longest is not None and max_length > self.longest:
            built = [p for p in self.method.parts if p.longest_row == self.longest]
            why = f"method {built[0].name!r} was built for (method.length)" if built else "the encoder takes"
            raise WeftError(f"max_length {max_length} is more than {why}; expected at most {self.longest}")
        self.max_length = max_length

    def task_id(self, name: str) -> int:
        """The id of the task of this name."""
        names = [task.name for task in self.tasks]
        if name not in names:
            raise WeftError(f"task {name!r} is not in this model; {did_you_mean(name, names)}")
        return names.index(name)

    def gradient_checkpointing_enable(self) -> None:
        """Recompute blocks in the backward pass instead of storing them, with the route of the first pass."""
        self.body.enable_checkpointing()
