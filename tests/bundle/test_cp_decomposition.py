"""The CP decomposition against tensorly, and the adapters against what the factors mean."""

from __future__ import annotations

import pytest
import tensorly
import torch
from tensorly.decomposition import parafac

from tests.support.tiny import build, scramble
from weft.adapters.cp import CpAdapter
from weft.adapters.tucker import TuckerAdapter
from weft.bundle.cp_decomposition import Cp, cp_als, cp_of_products, product_norm, truncated_svd


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def planted(shape, rank, seed=0):
    return Cp(*(drawn(n, rank, seed=seed + i) for i, n in enumerate(shape))).tensor()


def relative(found, tensor):
    return float((found.tensor() - tensor).norm() / tensor.norm())


def products(ups, downs):
    return torch.stack([up @ down for up, down in zip(ups, downs, strict=True)], 1).double()  # [o, T, i]


@pytest.mark.each_value
@pytest.mark.filterwarnings("ignore:Trying to compute SVD")
@pytest.mark.parametrize(
    ("shape", "rank"),
    [((12, 4, 10), 5), ((20, 3, 20), 6), ((16, 2, 16), 8), ((16, 8, 16), 16), ((9, 5, 4), 7)],
)
@pytest.mark.parametrize("kind", ["random", "planted", "noisy"])
def test_no_worse_than_tensorly(kind, shape, rank):
    tensor = drawn(*shape, seed=5) if kind == "random" else planted(shape, rank, seed=5)
    if kind == "noisy":
        tensor = tensor + 0.1 * drawn(*shape, seed=9)
    theirs = min(
        float(
            (tensor - torch.from_numpy(tensorly.cp_to_tensor(parafac(tensor.numpy(), rank, **how)))).norm()
            / tensor.norm()
        )
        for how in (
            {"init": "svd", "n_iter_max": 300},
            {"init": "random", "random_state": 0, "n_iter_max": 300},
        )
    )
    assert relative(cp_als(tensor, rank), tensor) <= 1.05 * theirs + 1e-9


@pytest.mark.parametrize("tasks", [2, 3, 9])
@pytest.mark.parametrize("rank", [1, 4, 12])
def test_a_planted_rank_is_found(tasks, rank):
    tensor = planted((24, tasks, 20), rank)
    assert relative(cp_als(tensor, rank), tensor) < 1e-6
    assert relative(cp_als(tensor, rank + 2), tensor) < 1e-6


def test_one_task_is_a_truncated_svd():
    tensor = drawn(12, 1, 9)
    left, right = truncated_svd(tensor[:, 0], 4)
    best = (left @ right - tensor[:, 0]).norm() / tensor.norm()
    assert relative(cp_als(tensor, 4), tensor) == pytest.approx(float(best), rel=1e-9)


def test_it_is_deterministic_and_keeps_the_size():
    tensor = 1e4 * drawn(10, 3, 8)
    one, two = cp_als(tensor, 4), cp_als(tensor, 4)
    assert all(torch.equal(getattr(one, name), getattr(two, name)) for name in "abc")
    assert relative(one, tensor) < 1
    assert not cp_als(torch.zeros(3, 2, 4), 2).tensor().any()


@pytest.mark.parametrize("rank", [9, 12])
def test_enough_rank_is_exact_and_written_down(rank):
    ups, downs = [drawn(30, k, seed=k) for k in (4, 2, 3)], [drawn(k, 20, seed=9 + k) for k in (4, 2, 3)]
    found = cp_of_products(ups, downs, rank)
    assert found.b.tolist() == [
        [1.0] * 4 + [0.0] * 5,
        [0.0] * 4 + [1.0] * 2 + [0.0] * 3,
        [0.0] * 6 + [1.0] * 3,
    ]
    assert relative(found, products(ups, downs)) < 1e-14


def test_the_core_is_as_good_as_the_whole_tensor():
    """Compression is lossless: on the compressed and on the whole tensor the same error is reached."""
    ups, downs = [drawn(30, 4, seed=t) for t in range(3)], [drawn(4, 20, seed=10 + t) for t in range(3)]
    whole = products(ups, downs)
    assert relative(cp_of_products(ups, downs, 8), whole) <= 1.02 * relative(cp_als(whole, 8), whole)


def test_tasks_that_share_directions_need_fewer_components():
    """Σk is 12, the tasks' updates lie on 4 common components (or are all the same)."""
    a, c = drawn(30, 4), drawn(4, 20, seed=1)
    sizes = [drawn(4, seed=20 + t) for t in range(3)]
    ups, downs = [a * s for s in sizes], [c] * 3
    assert relative(cp_of_products(ups, downs, 4), products(ups, downs)) < 1e-6
    assert relative(cp_of_products([a] * 3, downs, 4), products([a] * 3, downs)) < 1e-6
    # the same, written down by each task in a basis of its own
    turned = [torch.linalg.qr(drawn(4, 4, seed=40 + t))[0] for t in range(3)]
    ups, downs = [u @ q for u, q in zip(ups, turned, strict=True)], [q.T @ c for q in turned]
    assert relative(cp_of_products(ups, downs, 4), products(ups, downs)) < 1e-6


def test_tasks_and_components_that_add_nothing():
    ups = [drawn(30, 4), torch.zeros(30, 0), torch.zeros(30, 4)]
    downs = [drawn(4, 20, seed=1), torch.zeros(0, 20), drawn(4, 20, seed=2)]
    for rank, shape in ((4, (3, 4)), (2, (3, 2))):
        found = cp_of_products(ups, downs, rank)
        assert found.b.shape == shape
        assert not found.b[1:].any() or found.b[1:].abs().max() < 1e-9
    nothing = cp_of_products([torch.zeros(30, 0)] * 2, [torch.zeros(0, 20)] * 2, 3)
    assert nothing.b.shape == (2, 0)


def test_product_norm():
    up, down = drawn(30, 4), drawn(4, 20, seed=1)
    assert product_norm(up, down) == pytest.approx(float((up @ down).norm()))
    small = product_norm(torch.cat([up, -up], 1), torch.cat([down, down * (1 + 1e-12)]))
    assert small == pytest.approx(1e-12 * float((up @ down).norm()), rel=1e-2)
    assert product_norm(torch.zeros(30, 0), torch.zeros(0, 20)) == 0


@pytest.mark.parametrize("core", ["cp", "tucker"])
def test_adapters_are_what_tensorly_makes_of_their_factors(core):
    model = scramble(build("bert", {"use": "morris", "rank": 5, "task_rank": 3, "core": core}))
    kind = CpAdapter if core == "cp" else TuckerAdapter
    adapters = [adapter for _, adapter in model.placements if isinstance(adapter, kind)]
    assert len(adapters) == 4
    for adapter in adapters:
        a, c = (adapter.get_parameter(name)[0].detach().numpy() for name in "AC")
        b = adapter.get_parameter("B").detach().numpy()
        if core == "cp":
            whole = tensorly.cp_to_tensor((None, [a, b, c]))
        else:
            inner = adapter.get_parameter("G")[0].detach().permute(1, 0, 2).numpy()  # [r, k, r]
            whole = tensorly.tucker_to_tensor((inner, [a, b, c]))
        for task in range(4):
            merged = adapter.weight_delta(task)[0].detach()
            assert torch.allclose(merged, torch.from_numpy(whole[:, task]), atol=1e-6)
            up, down = adapter.low_rank_delta(task)
            assert torch.allclose(up @ down, merged, atol=1e-6)
