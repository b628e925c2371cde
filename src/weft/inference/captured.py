"""Forward passes as CUDA graphs: one graph per padded shape, checked before its answers are used.

An eager pass over a few rows takes as long as the host needs to launch its hundreds of kernels. A captured
pass is one copy of the inputs, one launch and one copy of the logits.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.acceleration.bf16_norms import Bf16Norms
from weft.acceleration.bf16_weights import Bf16Weights
from weft.acceleration.compiled import Compiled, check_free
from weft.acceleration.cuda_graph import Capturer
from weft.acceleration.difference import difference
from weft.acceleration.packed import Field, fields_of, pack, views
from weft.acceleration.patch import Patch, PatchStack
from weft.errors import WeftError
from weft.inference.attention import without_cudnn
from weft.inference.captured_pass import CapturedPass, UncapturedPass
from weft.inference.logits import HostLogits, Reader
from weft.inference.precision import Precision
from weft.inference.trunk_pass import on_trunk
from weft.model.threads import in_eval, in_turn

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.model.output import Output

Form = tuple[tuple[Field, ...], int | None, int, bool]
"""What distinguishes one graph from another: the name, type and shape of each input, the number of examples
if `example` is an input, how many of the lowest blocks run once for equal rows, and whether adapters are
off."""

USES = 3
"""A shape is captured once it is needed for the third time. A capture takes about four passes."""

MOST = 256
"""How many graphs are kept; beyond that the least recently used one is dropped."""

TOLERANCE: dict[Precision, float] = {"float32": 1e-4, "bf16": 3e-2}
"""How far a captured pass may be from the same eager pass: ‖a − b‖ / ‖b‖ for each head shape.

In bf16 a pass with a mask and one without take different kernels of attention. With random weights and rows
that are all equal, whose errors do not cancel, their logits differed by 1.6e-2."""

SMALL = 0.1
"""If the logits of a head shape are smaller than this share of all logits, their difference is relative to
that share."""

COMPILED_BF16 = 0.1
"""`TOLERANCE` of compiled passes in bf16, which round in different places than autocast."""

MOST_BF16 = 0.3
"""In bf16 twice the distance of autocast from float32 is allowed too, if that is more, but never more than
this."""


class CapturedModel:
    """Runs a model's forward pass as CUDA graphs, in eval mode and without gradients.

    Graphs read the model's parameters in place, so that weights may be trained between passes. With
    `compiled` they do not: the model is patched, and must not be used in any other way until `close`.

    Args:
        model: any model but one of method `separate`, on a CUDA device. On a CPU it runs uncaptured.
        precision: `float32`, or `bf16` by autocast.
        compiled: whether to compile the encoder's blocks and to hold its maps in bf16. Compilation takes from
            five seconds to a minute. Large batches become about 1.4 times as fast in bf16, and 0 to 8 %
            faster in float32.

    Attributes:
        works: false once a capture has failed or the object is closed.
        overhead: what a pass costs besides its rows, in token positions, once all shapes of the ladder are
            captured (`Model.capture`); until then None.
    """

    def __init__(self, model: Model, precision: Precision = "float32", compiled: bool = False) -> None:
        if model.method.separate:
            raise WeftError(
                "a model of method 'separate' cannot be captured: the rows of each task go through their own "
                "encoder; use any other method, or call predict without capture"
            )
        check_free(model)
        in_eval(model)
        self.model, self.precision, self.compiled = model, precision, compiled
        self.device = next(model.parameters()).device
        self._frozen = [p for p in model.parameters() if p.requires_grad] if compiled else []
        for parameter in self._frozen:  # compiled blocks join frozen maps
            parameter.requires_grad_(False)
        self._patch_stack = PatchStack(self._patches())
        self._capture = Capturer(self.device, warm_ups=2, mode="thread_local")
        self._passes: dict[Form, CapturedPass] = {}
        self._uses: Counter[Form] = Counter()
        self._too_large: set[Form] = set()
        self._last: torch.cuda.Event | None = None
        self._closed = False
        self.works = True
        self.overhead: float | None = None

    def _patches(self) -> list[Patch]:
        if not self.compiled:
            return []
        rounded: list[Patch] = []
        if self.precision == "bf16":
            rounded = [Bf16Weights(self.model), Bf16Norms(self.model)]
        return [*rounded, Compiled(self.model, fused=False)]

    @property
    def shapes(self) -> int:
        """How many shapes are captured."""
        return len(self._passes)

    def form_of(self, inputs: Mapping[str, Tensor], examples: int | None = None, depth: int = 0) -> Form:
        """Return the form of a batch, which identifies its graph; arguments as in `logits`."""
        return fields_of(inputs), examples, depth, self.model.is_bare

    def is_warm(self, form: Form, soon: int = 1) -> bool:
        """Whether batches of this form should run captured.

        A form is captured when it is needed for the third time (`USES`). Batches that the same call still has
        to run are counted too: a call of many batches captures at once, calls of one batch on the third call.

        Args:
            form: the form of the batch.
            soon: how many batches of this form the call still has to run, this one included.
        """
        if form in self._too_large:
            return False
        return self.compiled or form in self._passes or self._uses[form] + soon >= USES

    def leave_eager(self, form: Form) -> None:
        """Never capture batches of this form, because they do not fit into memory."""
        self._too_large.add(form)

    @in_turn
    def logits(
        self,
        inputs: Mapping[str, Tensor],
        examples: int | None = None,
        depth: int = 0,
        read: Reader | None = None,
    ) -> HostLogits:
        """Run a captured pass and return the batch's logits, on their way to the host.

        Args:
            inputs: the inputs of `Model.forward`, on the host; with `depth` > 0 also those of `on_trunk`.
            examples: the number of examples, if `example` is among the inputs.
            depth: how many of the lowest blocks run over distinct rows; see `on_trunk`.
            read: returns the tensors to take from the output instead of its logits.
        """
        done = self._replayed(inputs, examples, depth)
        if read is None:
            moving = HostLogits(done.logits, {name: x.shape for name, x in done.output.by_shape.items()})
        else:
            with self._running():
                moving = HostLogits.of(read(done.output))
        self._last = moving.arrived
        return moving

    def eager_logits(
        self,
        inputs: Mapping[str, Tensor],
        examples: int | None = None,
        depth: int = 0,
        read: Reader | None = None,
    ) -> HostLogits:
        """Like `logits`, by an eager pass of the same shape, which counts as one use of the shape."""
        self._uses[self.form_of(inputs, examples, depth)] += 1
        cuda = self.device.type == "cuda"
        moved = {
            name: (x.pin_memory() if cuda else x).to(self.device, non_blocking=True)
            for name, x in inputs.items()
        }
        with self._running():
            output = on_trunk(self.model, moved, examples, depth)
            return HostLogits.of(output.by_shape if read is None else read(output))

    @in_turn
    def __call__(self, examples: int | None = None, **inputs: Tensor) -> Output:
        """Return the output for inputs on the host or on the device; its logits are copies.

        Hidden states and the other tensors are overwritten by the next pass.

        Args:
            examples: the number of examples, if `example` is among the inputs.
            inputs: the inputs of `Model.forward`.
        """
        if "example" in inputs and examples is None:
            examples = int(inputs["example"].max()) + 1
        output = self._replayed(inputs, examples, 0).output
        copied = replace(output, by_shape={shape: x.clone() for shape, x in output.by_shape.items()})
        self._read()
        return copied

    @in_turn
    def close(self) -> None:
        """Drop all graphs and give the model back as it was, in eval mode."""
        if self._closed:
            return
        self._passes, self._closed, self.works = {}, True, False
        self._patch_stack.undo()
        for parameter in self._frozen:
            parameter.requires_grad_(True)

    @torch.inference_mode(False)  # tensors that are kept must be writable outside of inference mode too
    @torch.no_grad()
    def _replayed(self, inputs: Mapping[str, Tensor], examples: int | None, depth: int) -> CapturedPass:
        if self._closed:
            raise WeftError("this captured model is closed; call the model itself, or capture it again")
        form = self.form_of(inputs, examples, depth)
        if self._last is not None:  # a thread with a separate stream must not overtake the previous pass
            torch.cuda.current_stream(self.device).wait_event(self._last)
        done = self._passes.pop(form, None) or self._captured(inputs, examples, depth)
        if len(self._passes) >= MOST:
            if self._last is not None:  # a graph must not be dropped while it runs
                self._last.synchronize()
            del self._passes[next(iter(self._passes))]
        self._passes[form] = done  # insertion order is order of use: the last is the most recent
        if all(x.device.type == "cpu" for x in inputs.values()):
            done.memory.copy_(pack(inputs, self.device.type == "cuda"), non_blocking=True)
        else:
            for name, target in views(done.memory, form[0]).items():
                target.copy_(inputs[name], non_blocking=True)
        self.model.body.refresh()  # weights may have been trained since the last pass; a graph runs no Python
        done.run()
        return done

    def _read(self) -> None:
        """Mark the output of the last pass as read: the next pass, on any stream, may overwrite it."""
        if self.device.type == "cuda":
            self._last = torch.cuda.Event()
            self._last.record(torch.cuda.current_stream(self.device))

    @contextmanager
    def _running(self, precision: Precision | None = None) -> Iterator[None]:
        bf16 = (precision or self.precision) == "bf16"
        # The result must not depend on the caller's context. Inside the caller's autocast, weights rounded
        # before a capture would come from its cache, and the graph would read them after it is emptied.
        half = torch.autocast(self.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False)
        with torch.no_grad(), half, without_cudnn() if bf16 else nullcontext():
            yield

    def _captured(self, inputs: Mapping[str, Tensor], examples: int | None, depth: int) -> CapturedPass:
        """Capture a pass of this form, and verify it on these inputs."""
        fields = fields_of(inputs)
        packed = pack({name: x.cpu() for name, x in inputs.items()}, False).to(self.device)
        memory = packed.clone()
        batch = views(memory, fields)
        kept: dict[str, Any] = {}

        def run(precision: Precision | None = None) -> None:
            with self._running(precision):
                kept["output"] = output = on_trunk(self.model, batch, examples, depth)
                kept["logits"] = torch.cat([x.float().flatten() for x in output.by_shape.values()])

        expected, allowed = self._expected(run, kept)
        if "attention_mask" in batch:
            # without padding Hugging Face drops the mask, but the graph must serve padded batches too
            batch["attention_mask"][0, -1] = 0
        captured = self._capture(run)
        memory.copy_(packed)
        captured()
        done = CapturedPass(memory, captured, kept["output"], kept["logits"])
        # if the eager logits are not finite, the graph is not at fault
        if bool(expected.isfinite().all()):
            for distance, most in zip(_distances(done.logits, expected, kept), allowed, strict=True):
                if not distance <= most:
                    rows, length = batch["input_ids"].shape
                    raise CaptureWrong(
                        f"captured passes over {rows} rows of {length} tokens differ from eager ones by "
                        f"{distance:.1e} of the logits' norm (allowed: {most:.0e})"
                    )
        return done if self.device.type == "cuda" else UncapturedPass(memory, run, kept)

    def _expected(self, run: Callable[..., None], kept: dict[str, Any]) -> tuple[Tensor, list[float]]:
        """Return the logits of an eager pass of the unpatched model, and the tolerance of each head shape."""
        with self._patch_stack.suspended():
            run()
            plain = kept["logits"].clone()
            if self.precision == "float32":
                return plain, [TOLERANCE["float32"]] * len(kept["output"].by_shape)
            least = COMPILED_BF16 if self.compiled else TOLERANCE["bf16"]
            # a model may be ill-conditioned: autocast itself is far from float32 then
            run("float32")
            distances = _distances(plain, kept["logits"], kept)
            return plain, [min(max(least, 2 * x if math.isfinite(x) else 0.0), MOST_BF16) for x in distances]


def _distances(actual: Tensor, expected: Tensor, kept: Mapping[str, Any]) -> list[float]:
    """Return the relative difference of the logits of each head shape.

    In one norm over all, a task with few logits per example would be hidden by one with logits for each
    token.
    """
    sizes = [x.numel() for x in kept["output"].by_shape.values()]
    floor = SMALL * float(expected.double().norm()) / math.sqrt(expected.numel())
    return [difference(a, b, floor) for a, b in zip(actual.split(sizes), expected.split(sizes), strict=True)]


class CaptureWrong(Exception):
    """The outputs of a captured pass differ from those of an eager pass."""


def warn_eager(why: object) -> None:
    """Warn that a model's passes run eagerly from now on."""
    warnings.warn(f"inference falls back to eager: {why}", RuntimeWarning, stacklevel=3)
