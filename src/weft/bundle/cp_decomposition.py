"""The CP decomposition of a tensor, and of a stack of low-rank matrices that is never built.

A tensor X [I, J, K] of CP rank r is X[i, j, k] = Σ_s a[i, s]·b[j, s]·c[k, s]. All computations are in float64
and
deterministic: the random starts are drawn from a seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.utils.seeding import generator

TOLERANCE = 1e-10
"""Sweeps end when the relative error decreases by less than this in each of `PATIENCE` sweeps."""

PATIENCE = 3

TRIAL, SWEEPS = 30, 500
"""The maximum number of sweeps of each start, and then of the best start."""

RESTARTS = 2


@dataclass(frozen=True)
class Cp:
    """Factors of X ≈ Σ_s a[:, s] ∘ b[:, s] ∘ c[:, s].

    Attributes:
        a: [I, r].
        b: [J, r].
        c: [K, r].
    """

    a: Tensor
    b: Tensor
    c: Tensor

    def tensor(self) -> Tensor:
        """The tensor that the factors represent, [I, J, K]."""
        return torch.einsum("ir,jr,kr->ijk", self.a, self.b, self.c)


def cp_of_products(ups: Sequence[Tensor], downs: Sequence[Tensor], rank: int, seed: int = 0) -> Cp:
    """The CP decomposition of Q [o, T, i] with the slices Q[:, t] = ups[t]·downs[t].

    There are Σk components in all, and Q = Σ_k up_k ∘ e_t(k) ∘ down_k. If Σk ≤ `rank`, this is the result,
    and exact. Else QR gives orthonormal bases of all ups and of all downs; Q in these bases is a core
    [≤Σk, T, ≤Σk] of the same norm, which is decomposed, and the factors are lifted back.

    Args:
        ups: one [o, k] per task.
        downs: one [k, i] per task.
        rank: r, the maximum number of components.
        seed: the seed of the random starts.

    Returns:
        Factors a [o, s], b [T, s] and c [i, s] with s ≤ r: components that are zero are left out.
    """
    pairs = [_live(up.double(), down.double()) for up, down in zip(ups, downs, strict=True)]
    up, down = torch.cat([u for u, _ in pairs], 1), torch.cat([d for _, d in pairs]).T  # [o, Σk], [i, Σk]
    counts = [u.size(1) for u, _ in pairs]
    if sum(counts) <= rank:
        blocks = [torch.ones(1, count, dtype=up.dtype, device=up.device) for count in counts]
        return Cp(up, torch.block_diag(*blocks), down)
    (basis_up, core_up), (basis_down, core_down) = torch.linalg.qr(up), torch.linalg.qr(down)
    products = [
        u @ d.T for u, d in zip(core_up.split(counts, 1), core_down.split(counts, 1), strict=True)
    ]  # each [≤Σk, ≤Σk]
    core_cp = cp_als(torch.stack(products, 1), rank, seed)
    return Cp(basis_up @ core_cp.a, core_cp.b, basis_down @ core_cp.c)


def cp_als(tensor: Tensor, rank: int, seed: int = 0, sweeps: int = SWEEPS, restarts: int = RESTARTS) -> Cp:
    """The best CP decomposition that alternating least squares finds from a few starts.

    The starts are the algebraic solution, the leading singular vectors of the unfoldings, and random ones. A
    sweep solves for a, b and c in turn, the other two fixed: a = X₁·(b ⊙ c)·(bᵀb ∘ cᵀc)⁺, X₁ [I, J·K] the
    unfolding and ⊙ the column-wise Kronecker product. All starts get a few sweeps; the best one continues.

    Args:
        tensor: X [I, J, K].
        rank: r.
        seed: the seed of the random starts.
        sweeps: the maximum number of sweeps of the best start.
        restarts: the number of random starts.
    """
    x = tensor.double()
    size = x.norm()
    if size == 0:
        return Cp(*(x.new_zeros(n, rank) for n in x.shape))
    best, least = None, torch.inf
    with _one_thread():
        for start in _starts(x, rank, seed, restarts):
            candidate, error = _descend(x / size, start, TRIAL)
            if error < least:
                best, least = candidate, error
            if least < TOLERANCE:
                break
        assert best is not None  # there is at least one start
        if least >= TOLERANCE:
            best, _ = _descend(x / size, best, sweeps)
    return Cp(best.a, best.b * size, best.c)


def truncated_svd(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The nearest matrix of this rank, M [o, T] ≈ left·right: left [o, s] orthonormal, right [s, T], s ≤ r.

    Singular values that are zero are left out.
    """
    u, s, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
    kept = int((s[:rank] > s[:1] * 1e-12).sum())
    return u[:, :kept], s[:kept, None] * vh[:kept]


def product_norm(up: Tensor, down: Tensor) -> float:
    """‖up·down‖ of [o, k]·[k, i] without the product; inner products would lose half of the digits."""
    left, right = (torch.linalg.qr(m.double(), mode="r")[1] for m in (up, down.T))
    return float((left @ right.T).norm())


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run with one thread: on a busy machine, several are 20 times slower for many small products."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _live(up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """Remove the components that are zero."""
    kept = ((up != 0).any(0) & (down != 0).any(1)).nonzero()[:, 0]
    return up[:, kept], down[kept]


def _starts(x: Tensor, rank: int, seed: int, restarts: int) -> Iterator[Cp]:
    """Yield the starts; in effect b and c, since a is solved for first."""
    algebraic = _by_eigenvectors(x, rank, seed)
    if algebraic is not None:
        yield algebraic
    for number in range(restarts + 1):
        factors = []
        for mode, name in enumerate("abc"):
            factor = _draw(x.size(mode), rank, x, seed, str(number), name)
            if number == 0:
                leading = _leading(x, mode, rank)
                factor[:, : leading.size(1)] = leading
            factors.append(_normal(factor)[0])
        yield Cp(*factors)


def _by_eigenvectors(x: Tensor, rank: int, seed: int) -> Cp | None:
    """The algebraic solution (Jennrich), which is exact for a tensor whose rank is r ≤ I, K.

    Two sums of slices, M = Σ_j w_j·X[:, j] = a·diag(bᵀw)·cᵀ, give M₁·M₂⁻¹ = a·diag(·)·a⁻¹: its eigenvectors
    are a. Then row s of a⁻¹·X₁ is b[:, s] ∘ c[:, s]. Alternating least squares alone converges slowly if
    there are only two or three slices. For other tensors this is a start as good as any.
    """
    if rank > min(x.size(0), x.size(2)) or x.size(1) < 2:
        return None
    left, right = _leading(x, 0, rank), _leading(x, 2, rank)
    small = torch.einsum("ijk,ip,kq->pjq", x, left, right)  # [r, J, r]
    first, second = torch.einsum("pjq,jn->npq", small, _draw(x.size(1), 2, x, seed, "slices"))
    vectors = torch.linalg.eig(first @ torch.linalg.pinv(second, rtol=1e-10))[1]
    # a pair of complex eigenvectors is replaced by its real and imaginary parts, which span the same space
    a = torch.stack([v.imag if _repeats(vectors, s) else v.real for s, v in enumerate(vectors.T)], 1)
    rows = (torch.linalg.pinv(a) @ small.flatten(1)).view(rank, x.size(1), rank)  # [r, J, r]
    u, _, vh = torch.linalg.svd(rows, full_matrices=False)
    return Cp(left @ _normal(a)[0], u[:, :, 0].T, right @ vh[:, 0].T)


def _repeats(vectors: Tensor, s: int) -> bool:
    """Whether an eigenvector is the conjugate of the one before it."""
    return s > 0 and bool(vectors[:, s].imag.any()) and torch.equal(vectors[:, s], vectors[:, s - 1].conj())


def _leading(x: Tensor, mode: int, rank: int) -> Tensor:
    """The leading singular vectors of an unfolding, [n, ≤r], signs as they come."""
    return torch.linalg.svd(_unfold(x, mode), full_matrices=False)[0][:, :rank]


def _draw(rows: int, columns: int, like: Tensor, seed: int, *names: str) -> Tensor:
    # on the CPU whatever the device, so that a seed means the same start everywhere
    drawn = torch.randn(rows, columns, generator=generator(seed, "cp", *names), dtype=like.dtype)
    return drawn.to(like.device)


def _descend(x: Tensor, start: Cp, sweeps: int) -> tuple[Cp, float]:
    """Run sweeps from one start; return the factors and their error for ‖X‖ = 1."""
    b, c = start.b, start.c
    before, still = torch.inf, 0
    for _ in range(sweeps):
        with_c = x @ c  # [I, J, r]: a and b are solved from one product
        a = _normal(_solve((with_c * b).sum(1), b, c))[0]
        b = _normal(_solve((with_c * a[:, None]).sum(0), a, c))[0]
        with_a = torch.einsum("ijk,ir->jkr", x, a)  # [J, K, r]
        right = (with_a * b[:, None]).sum(0)
        c = _solve(right, a, b)  # c carries the norms of the components
        error = _error(x, Cp(a, b, c), right)
        still = still + 1 if before - error < TOLERANCE else 0
        before = error
        if error < TOLERANCE or still == PATIENCE:
            break
    c, sizes = _normal(c)
    return Cp(a, b * sizes, c), error


def _solve(right: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Solve the normal equations f·(aᵀ·a ∘ bᵀ·b) = right [n, r] for the factor f [n, r]."""
    gram = (a.T @ a) * (b.T @ b)
    lower, failed = torch.linalg.cholesky_ex(gram)
    pivots = lower.diagonal()
    if failed or pivots.min() < 1e-5 * pivots.max():
        return right @ torch.linalg.pinv(gram, hermitian=True)  # slower, but works if components coincide
    return torch.cholesky_solve(right.T, lower).T


def _error(x: Tensor, cp: Cp, right: Tensor) -> float:
    """‖X − X̂‖, given that c was solved for last: ‖X̂‖² is then ⟨X, X̂⟩ = ⟨right, c⟩."""
    square = 1 - float((right * cp.c).sum())
    # 1 − x loses half of the digits if x is near 1
    return math.sqrt(square) if square > 1e-6 else float((x - cp.tensor()).norm())


def _unfold(x: Tensor, mode: int) -> Tensor:
    """[I, J, K] → [I, J·K], [J, I·K] or [K, I·J]."""
    return x.movedim(mode, 0).flatten(1)


def _normal(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns scaled to norm 1, and their norms; a column of zeros stays zero."""
    sizes = factor.norm(dim=0)
    return factor / sizes.where(sizes > 0, torch.ones_like(sizes)), sizes
