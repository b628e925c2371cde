"""`weft assemble --merge`: one set of weights for all tasks, out of tasks that were trained separately.

Every task has one vote: its task vector τ_t, what training has added to the encoder's weights. Tasks that
share weights, such as those of one `full` run, have equal vectors. Heads stay as they are, one per task.

- `full` and `separate`: τ_t is the trained encoder minus the encoder that the runs started from. The result
  is one `full` bundle.
- Methods whose adapters add to weights and biases (`lora`, `lora_bitfit`, `bitfit`, `morris`): τ_t is the
  update itself, ΔW_t = s·B_t·A_t and Δb_t. The products are merged, not the factors: Σ_t w_t·B_t·A_t is not
  (Σ_t w_t·B_t)·(Σ_t w_t·A_t), whose terms mix the B of one task with the A of another. The result has one
  set for all tasks (`share: all`). A weighted sum of products is a product of joined factors,
  [w_1·B_1, …]·[A_1; …], exact with rank Σ_t r_t. What `ties` and `dare` make has any rank, and becomes the
  nearest product of the wanted rank (truncated SVD); its error is reported.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.adapters.bias import BiasAdapter
from weft.adapters.lora import LoraAdapter
from weft.bundle.assemble import Assembled
from weft.bundle.assemble_morris import SiteError, relative_error
from weft.bundle.cp_decomposition import product_norm, truncated_svd
from weft.bundle.load import encoder_of_bundle, load, open_files
from weft.bundle.manifest import SHARED_FILE, task_file
from weft.bundle.merge_method import merged_method
from weft.bundle.merge_rules import RULES, Merge
from weft.bundle.save import key
from weft.bundle.sources import Source, Together, check_together, read_sources
from weft.bundle.updates import TaskUpdates, heads_of, model_of, updates_of_all
from weft.bundle.writing import writing_bundle
from weft.core.stacked import ENCODER, task_owner
from weft.errors import WeftError, words
from weft.methods.full import Full
from weft.methods.separate import Separate
from weft.model.ownership import Owned, owned

if TYPE_CHECKING:
    from weft.model.model import Model


@dataclass(frozen=True)
class Merged(Assembled):
    """The result of `merge_bundles`.

    Attributes:
        merge: how the tasks were merged.
        errors: the error of each site whose update was brought to a smaller rank.
    """

    merge: Merge
    errors: tuple[SiteError, ...] = ()

    @property
    def relative(self) -> float:
        """The relative error of all updates together; 0 if all are exact."""
        return relative_error(self.errors) or 0.0

    def as_dict(self) -> dict[str, Any]:
        """The output of `weft assemble --merge … --json`, without scores."""
        return {
            **super().as_dict(),
            "merge": self.merge.as_dict(),
            "errors": [site.as_dict() for site in self.errors],
            "weight_error": self.relative,
        }


def merge_bundles(
    folders: Sequence[str | Path],
    out: str | Path,
    merge: Merge,
    *,
    rank: int | None = None,
    encoder: Any = None,
) -> Merged:
    """Merge the weights of all tasks of bundles into one set.

    Args:
        folders: bundles, or run folders; one with several tasks is enough.
        out: the folder of the new bundle.
        merge: how to merge.
        rank: the largest rank of a merged low-rank update; None: the sum of the tasks' ranks.
        encoder: folder or hub id of the encoder, if it has moved.
    """
    if rank is not None and rank < 1:
        raise WeftError(f"{words('--rank', 'rank')} must be at least 1; found {rank}")
    with writing_bundle(out, words("weft assemble", "weft.assemble")):
        return _merge(folders, Path(out), merge, rank, encoder)


def _merge(folders: Sequence[str | Path], out: Path, merge: Merge, rank: int | None, encoder: Any) -> Merged:
    sources = read_sources(folders, out)
    names = [name for source in sources for name in source.names]
    if len(names) < 2:
        raise WeftError(
            f"merging needs two or more tasks; found {len(names)}: "
            + words(
                f"weft assemble BUNDLE BUNDLE --merge {merge.rule} --out {out}",
                f"weft.assemble([BUNDLE, BUNDLE], OUT, merge={merge.rule!r})",
            )
        )
    together = check_together(sources)
    merge.of_tasks(names)  # wrong weights are reported before anything is read
    if _trains_encoder(sources):
        if rank is not None:
            raise WeftError(
                f"{words('--rank', 'rank')} {rank}: method {sources[0].method.name} has whole weights, which "
                "are merged as they are; leave it out"
            )
        errors: list[SiteError] = []
        model = _of_encoders(sources, together, merge, encoder)
    else:
        model, errors = _of_updates(sources, together, merge, rank, encoder)
    for source in sources:
        source.check_unchanged()
    model.save(out, with_encoder=any(source.manifest["encoder"]["included"] for source in sources))
    return Merged(out, tuple(names), model.method, together.notes, merge, tuple(errors))


def _trains_encoder(sources: Sequence[Source]) -> bool:
    """Whether the bundles train the encoder; those that also have adapters, or a mixture, are refused."""
    trained = [source.method.separate or source.method.train_encoder != "none" for source in sources]
    for source, trains in zip(sources, trained, strict=True):
        if trains and not isinstance(source.method, Full | Separate):
            raise WeftError(
                f"{source.manifest_path}: method {_name(source)!r} trains the encoder and adapters together; "
                "expected full, separate, or a method that keeps the encoder frozen (train_encoder: none)"
            )
        if trains != trained[0]:
            raise WeftError(
                f"{sources[0].manifest_path} has method {_name(sources[0])!r} and {source.manifest_path} "
                f"{_name(source)!r}; one trains the encoder, and the other does not: train both the same way"
            )
    return trained[0]


def _name(source: Source) -> str:
    return "+".join(part.name for part in source.method.parts)


# ----------------------------------------------------------------------------------------- whole encoders


@torch.no_grad()
def _of_encoders(sources: Sequence[Source], together: Together, merge: Merge, encoder: Any) -> Model:
    """A `full` model whose encoder has the merged weights."""
    first = sources[0]
    for source in sources:
        if source.method.train_encoder != first.method.train_encoder:
            raise WeftError(
                f"train_encoder is {first.method.train_encoder!r} in {first.manifest_path} and "
                f"{source.method.train_encoder!r} in {source.manifest_path}; train both with the same"
            )
    tasks: list[TaskUpdates] = []
    for source in sources:  # one model at a time: it checks every tensor of the files that are read below
        model = load(source.folder, encoder=_fresh(encoder))
        heads = heads_of(model)
        tasks += [TaskUpdates(task, head=heads.get(task_owner(task.name), {})) for task in model.tasks]
    base = encoder_of_bundle(first.folder, first.manifest, _fresh(encoder))
    method = Full(train_encoder=first.method.train_encoder)
    model = model_of(base, tasks, method, together, first.manifest["seed"])
    names = [updates.task.name for updates in tasks]
    moved = dict.fromkeys(names, False)
    with ExitStack() as stack:
        trained = [_Trained(source, name, stack) for source in sources for name in source.names]
        for item in owned(model):
            if item.part != "encoder" or not item.trains:
                continue
            vectors = [weights.tensor(item) - item.data for weights in trained]
            for name, vector in zip(names, vectors, strict=True):
                moved[name] = moved[name] or bool(vector.any())
            item.data.add_(merge(vectors, names, key(item)))
    if still := [name for name, has_moved in moved.items() if not has_moved]:
        raise WeftError(
            f"task {still[0]!r}: its encoder equals the one that it started from, so that there is nothing "
            "to merge. Either it was not trained, or the encoder was passed as a model and not by its name, "
            "and its weights before training are not in the bundle"
        )
    return model


def _fresh(encoder: Any) -> Any:
    """An encoder that may be overwritten: a name as it is, and a copy of an object."""
    return encoder if encoder is None or isinstance(encoder, str | Path) else copy.deepcopy(encoder)


class _Trained:
    """The trained encoder of one task, read tensor by tensor.

    Args:
        source: the task's bundle.
        task: the task's name.
        stack: closes the file.
    """

    def __init__(self, source: Source, task: str, stack: ExitStack) -> None:
        files = open_files(source.folder, [task], stack)
        separate = source.method.separate
        self.file = files[task_file(source.folder, task) if separate else source.folder / SHARED_FILE]
        self.prefix = f"{ENCODER}.{task_owner(task)}." if separate else f"{ENCODER}."

    def tensor(self, item: Owned) -> Tensor:
        """The task's values of a parameter of the merged encoder."""
        values: Tensor = self.file.get_tensor(self.prefix + key(item).removeprefix(f"{ENCODER}."))
        return values


# ------------------------------------------------------------------------------------- updates by adapters


@torch.no_grad()
def _of_updates(
    sources: Sequence[Source], together: Together, merge: Merge, rank: int | None, encoder: Any
) -> tuple[Model, list[SiteError]]:
    """A model with one set of updates for all tasks, and the errors of updates of smaller rank."""
    updates, bare = updates_of_all(sources, encoder)
    method = merged_method(updates, bare, rank, RULES[merge.rule].sums, sources)
    model = model_of(bare, updates, method, together, sources[0].manifest["seed"])
    names = [task_updates.task.name for task_updates in updates]
    errors = []
    for site, adapter in model.placements:
        if isinstance(adapter, LoraAdapter):
            up, down = _joined(updates, adapter, merge, names)
            count = sum(task_updates.factors(site)[0].size(1) for task_updates in updates)
            new_up, new_down = _of_rank(up, down, adapter.rank)
            adapter.slot("B", 0).zero_()[:, : new_up.size(1)] = new_up
            adapter.slot("A", 0)[: new_down.size(0)] = new_down
            written = adapter.low_rank_delta(0)
            assert written is not None, "the merged method is a plain LoRA"
            written_up, written_down = written
            norm = product_norm(up, down)
            error = product_norm(
                torch.cat([up, -written_up.to(up)], 1), torch.cat([down, written_down.to(down)])
            )
            if not math.isfinite(norm + error):  # the factors may be finite, and their products not
                raise WeftError(
                    f"{site.key}: the updates are not finite numbers; the model did not train well"
                )
            errors.append(SiteError(site.key, "weight", count, adapter.rank, norm, error))
        elif isinstance(adapter, BiasAdapter):
            biases = [task_updates.bias(site) for task_updates in updates]
            adapter.slot("v", 0).copy_(merge(biases, names, f"{site.key} bias"))
    return model, errors


def _joined(
    updates: Sequence[TaskUpdates], adapter: LoraAdapter, merge: Merge, names: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """The merged update of one site as a product, [o, k]·[k, i], exact, in float64."""
    site = adapter.site
    pairs = [task_updates.factors(site) for task_updates in updates]
    if RULES[merge.rule].sums:
        factors = merge.factors(names)
        ups = [up.double() * factor for (up, _), factor in zip(pairs, factors, strict=True)]
        return torch.cat(ups, 1), torch.cat([down.double() for _, down in pairs])
    merged = merge([up @ down for up, down in pairs], names, site.key).double()
    if site.out_width <= site.in_width:
        return torch.eye(site.out_width, dtype=torch.float64), merged
    return merged, torch.eye(site.in_width, dtype=torch.float64)


def _of_rank(up: Tensor, down: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """A product as it is if its rank allows, else the nearest product of this rank.

    The singular values are divided between both factors, so that they are of the same size and train alike.
    """
    if up.size(1) <= rank:
        return up, down
    # of the small core of two QR decompositions, not of the whole product
    q_up, r_up = torch.linalg.qr(up)
    q_down, r_down = torch.linalg.qr(down.T)
    left, right = truncated_svd(r_up @ r_down.T, rank)
    size = right.norm(dim=1).sqrt()
    return q_up @ (left * size), (right / size[:, None]) @ q_down.T
