"""Mixtures of low-rank updates: mixed by the task (Polytropon, MHR) or by each token (HydraLoRA)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.adapter import Adapter
from weft.adapters.derived import DerivedAdapter, Tables
from weft.adapters.stacked import slot_sigmoid, uniform
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site
from weft.errors import WeftError
from weft.kernels.dispatch import low_rank, shared_linear
from weft.kernels.joined import Components, joins, side_by_side

EPS = 1e-12
"""Added to the sum that the sigmoids are divided by, as in PEFT."""

LARGEST_START = 1e-3
"""Logits start uniformly in ± this, as in PEFT: every task begins with nearly the same mixture."""


class PolyAdapter(DerivedAdapter):
    """y = W·x + b + s·B_t·A_t·x, with A_t = Σ_k p_tk·A_k and B_t = Σ_k p_tk·B_k: skills mixed by the task.

    p_t = σ(logits_t) / Σ_k σ(logits_tk). All tasks share the K skills, A [1, K, r, i] and B [1, K, o, r];
    logits [S, q, K] are the task's. With q > 1 (multi-head routing, MHR) the i inputs and the o outputs are
    cut into q slices, each with a mixture of its own. B starts at zero, so that the initial model equals the
    base exactly; A starts uniformly in ±1/√(i/q), logits in ±0.001, as in PEFT.

    A_t and B_t of all tasks are tables: in a batch, and in inference, the update is LoRA's.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        shared: the slots of the skills.
        per_task: the slots of the logits.
        rank: r.
        skills: K.
        splits: q, a divisor of i and o.
        scale: s.
        noise: whether training draws σ(logits + log u − log(1 − u)), u uniform, instead of σ(logits): the
            relaxed Bernoulli variable of the papers. u is drawn once per pass for each task.
        seed: the random seed of the initial values.
    """

    fits = LINEAR
    by = "logits"
    sources = ("A", "B", "logits")

    def __init__(
        self,
        site: Site,
        shared: Slots,
        per_task: Slots,
        rank: int,
        skills: int,
        splits: int,
        scale: float,
        noise: bool,
        seed: int,
    ) -> None:
        super().__init__(site)
        if site.in_width % splits or site.out_width % splits:
            raise WeftError(
                f"poly at {site.key!r}: {splits} splits (method.splits) cannot divide a map from "
                f"{site.in_width} to {site.out_width}; expected a divisor of "
                f"{math.gcd(site.in_width, site.out_width)}"
            )
        self.rank = rank
        self.scale = scale
        self.noise = noise
        self.stack("A", (skills, rank, site.in_width), shared, "weight")
        self.stack("B", (skills, site.out_width, rank), shared, "weight")
        self.stack("logits", (splits, skills), per_task, "bias")
        self.start("A", uniform(site.in_width // splits), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))
        self.start(
            "logits",
            lambda t, g: t.uniform_(-LARGEST_START, LARGEST_START, generator=g),
            seed,
            site.key,
        )

    def derive(self, *sources: Tensor) -> Tables:
        """A_t […, S, r, i] and B_t […, S, o, r]."""
        skills_in, skills_out, logits = sources
        p = self.mixture(logits)  # […, S, q, K]
        splits = logits.size(-2)
        down = skills_in.squeeze(-4).unflatten(-1, (splits, -1)).movedim(-2, -4)  # […, q, K, r, i/q]
        up = skills_out.squeeze(-4).unflatten(-2, (splits, -1)).movedim(-3, -4)  # […, q, K, o/q, r]
        mix = combined if p.is_cuda else combined_one_by_one
        # […, S, q, r, i/q] and […, S, q, o/q, r]
        return mix(p, down).movedim(-3, -2).flatten(-2), mix(p, up).flatten(-3, -2)

    def mixture(self, logits: Tensor) -> Tensor:
        """p, […, K]: positive, with sum 1."""
        if self.noise and self.training:
            u = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
            logits = logits + u.log() - (-u).log1p()
        opened = slot_sigmoid(logits)
        return opened / (opened.sum(-1, keepdim=True) + EPS)

    def map_shapes(self) -> tuple[tuple[int, int, int], ...]:
        """See `DerivedAdapter`."""
        tasks = self.get_parameter("logits").size(0)
        return (tasks, self.rank, self.site.in_width), (tasks, self.site.out_width, self.rank)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        return self._update(x, route, None)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        return self._update(x, route, y)

    def _update(self, x: Tensor, route: Route, onto: Tensor | None) -> Tensor:
        (down, up), mix = self.slot_tables(route)
        return low_rank(x, down, up, mix, scale=self.scale, onto=onto)

    def can_join(self) -> bool:
        """See `Adapter`: as LoRA with one slot per task."""
        logits = self.get_parameter("logits")
        return joins(logits.size(0), self.rank, self.site.in_width, logits.device)

    def components(self, route: Route) -> Components:
        """See `Adapter`: the components of all tasks, of which a row keeps those of its own."""
        (down, up), mix = self.slot_tables(route)
        return side_by_side(down, up, None if mix is None else mix.slot, self.scale)

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """s·B_t and A_t, [o, r] and [r, i]."""
        down, up = self.task_tables(task)
        return up * self.scale, down

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = s·B_t·A_t, [o, i]."""
        up, down = self.low_rank_delta(task)
        return up @ down, None

    def inner_products(self) -> tuple[Tensor, None]:
        """⟨B_s·A_s, B_t·A_t⟩ = Σ (B_sᵀ·B_t ∘ A_s·A_tᵀ), [T, T]."""
        factors = [self.low_rank_delta(t) for t in range(len(self.stacks["logits"].slots.of_task))]
        up, down = (torch.stack(part) for part in zip(*factors, strict=True))
        left = torch.einsum("sop,toq->stpq", up, up)
        return (left * torch.einsum("spi,tqi->stpq", down, down)).sum((2, 3)), None


def combined(p: Tensor, skills: Tensor) -> Tensor:
    """Return Σ_k p[…, s, q, k]·skills[…, q, k], […, S, q, K] and […, q, K, a, b] → […, S, q, a, b]."""
    return torch.einsum("...sqk,...qkab->...sqab", p, skills)


def combined_one_by_one(p: Tensor, skills: Tensor) -> Tensor:
    """As `combined`, one skill after the other: no bit of a task depends on the number of tasks.

    On a CPU outputs stay the same when tasks are added. A product over all tasks may sum in another order.
    """
    total: Tensor | None = None
    for of_skill, skill in zip(p.unbind(-1), skills.unbind(-3), strict=True):
        weight, skill = of_skill[..., None, None], skill.unsqueeze(-4)  # […, S, q, 1, 1] and […, 1, q, a, b]
        total = weight * skill if total is None else torch.addcmul(total, weight, skill)
    assert total is not None
    return total


class HydraAdapter(Adapter):
    """y = W·x + b + s·Σ_i g_i(x)·B_i·A·x, with g(x) = softmax(G·x + u_t): experts mixed by each token.

    All tasks share A [1, r, i], the N experts B [1, N, o, r] and the gate G [1, N, i]. u [S, N], a vector per
    task, is not part of HydraLoRA and is left out by default; it starts at zero. B starts at zero, so that
    the initial model equals the base exactly; A and G start kaiming-uniform, as in the authors' code.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        shared: the slots of A, B and G.
        per_task: the slots of u; None: no u.
        rank: r.
        experts: N.
        scale: s.
        seed: the random seed of the initial values.
    """

    fits = LINEAR
    unmerged = "its mixture depends on the input, and no one weight computes it"

    def __init__(
        self,
        site: Site,
        shared: Slots,
        per_task: Slots | None,
        rank: int,
        experts: int,
        scale: float,
        seed: int,
    ) -> None:
        super().__init__(site)
        self.scale = scale
        self.stack("A", (rank, site.in_width), shared, "weight")
        self.stack("B", (experts, site.out_width, rank), shared, "weight")
        self.stack("G", (experts, site.in_width), shared, "weight")
        for name in ("A", "G"):
            self.start(name, uniform(site.in_width), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))
        self.by_task = per_task is not None
        if per_task is not None:
            self.stack("u", (experts,), per_task, "bias")
            nn.init.zeros_(self.get_parameter("u"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        return self._update(x, route, None)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        return self._update(x, route, y)

    def _update(self, x: Tensor, route: Route, onto: Tensor | None) -> Tensor:
        gate, down, experts = (self.get_parameter(name)[0] for name in ("G", "A", "B"))
        both = F.linear(x, torch.cat([gate, down]))  # one product: x is read once
        logits, low = both.split([len(gate), len(down)], -1)  # [R, L, N] and [R, L, r]
        logits = logits.float()
        if self.by_task:
            logits = logits + self.take("u", route)[:, None]
        weights = (logits.softmax(-1) * self.scale).to(low.dtype)
        mixed = (weights[..., None] * low[..., None, :]).flatten(-2)  # [R, L, N·r]
        return shared_linear(mixed, experts.transpose(0, 1).flatten(1), onto)
