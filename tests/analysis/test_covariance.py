"""CovSim: properties over random inputs, a plain reference, and what a model gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import weft
from tests.support.tiny import scramble
from tests.support.tiny_run import rows_of, save_encoder
from weft.analysis.covariance import POOLS, Covariance, averages_over_others, covariance_similarity, leading
from weft.analysis.covariance_of_model import model_covariances, pooled_rows
from weft.analysis.plots.covariance import write_picture
from weft.data.batching.collate import collate
from weft.data.splits.split import load_split
from weft.data.tokens.tokens import tokenize
from weft.errors import WeftError

WIDTH = 6


@st.composite
def inputs(draw, tasks=3):
    """X of each task, some with fewer rows than dimensions; far from a tie at 99 %."""
    seed = draw(st.integers(0, 2**32 - 1))
    counts = draw(st.lists(st.integers(1, 20), min_size=tasks, max_size=tasks))
    generator = np.random.default_rng(seed)
    made = [generator.normal(size=(m, WIDTH)) * generator.uniform(0.05, 2, WIDTH) for m in counts]
    for x in made:
        squares = np.linalg.svd(x, compute_uv=False) ** 2
        assume(np.abs(np.cumsum(squares) / squares.sum() - 0.99).min() > 1e-6)
    return made


def similarity(xs, share=0.99):
    found = [Covariance(WIDTH) for _ in xs]
    for one, x in zip(found, xs, strict=True):
        one.add(x)
    return covariance_similarity([f"t{n}" for n in range(len(xs))], found, share)


def plain(x, y, share=0.99):
    """The equation word by word, from the singular values of X itself."""

    def factor(x):
        _, s, vt = np.linalg.svd(x, full_matrices=False)
        values = s**2
        rank = next(r for r in range(1, len(values) + 1) if values[:r].sum() >= share * values.sum())
        return vt[:rank].T @ np.diag(values[:rank]) ** 0.5

    f, g = factor(x), factor(y)
    return np.linalg.norm(f.T @ g) / (np.linalg.norm(f) * np.linalg.norm(g)), f.shape[1]


@given(inputs())
def test_it_is_the_equation(xs):
    found = similarity(xs)
    for i, x in enumerate(xs):
        for j, y in enumerate(xs):
            expected, rank = plain(x, y)
            assert found.matrix[i, j] == pytest.approx(expected, abs=1e-10)
            assert found.ranks[i] == rank
    assert found.counts == tuple(map(len, xs))
    for i in range(3):
        others = [found.matrix[i, j] for j in range(3) if j != i]
        assert found.averages[i] == pytest.approx(sum(others) / 2)


@given(inputs())
def test_symmetric_and_between_0_and_1(xs):
    matrix = similarity(xs).matrix
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (matrix >= 0).all()
    assert (matrix <= 1).all()


@given(inputs(), st.integers(0, 99), st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
def test_a_common_rotation_and_a_scale_of_each_change_nothing(xs, seed, scales):
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)))
    before = similarity(xs)
    for other in ([x @ turn for x in xs], [a * x for a, x in zip(scales, xs, strict=True)]):
        after = similarity(other)
        np.testing.assert_allclose(after.matrix, before.matrix, atol=1e-9)
        assert after.ranks == before.ranks


@given(inputs(1), st.floats(0.05, 1.0))
def test_the_rank_is_the_smallest_and_the_approximation_the_best(xs, share):
    (x,) = xs
    values = np.sort(np.linalg.svd(x, compute_uv=False) ** 2)[::-1]
    sums = np.cumsum(values) / values.sum()
    assume(share == 1.0 or np.abs(sums - share).min() > 1e-9)
    factor = leading(x.T @ x, share)
    rank = factor.shape[1]
    if share == 1.0:
        assert rank == np.linalg.matrix_rank(x)
    else:
        assert sums[rank - 1] >= share
        assert rank == 1 or sums[rank - 2] < share
    # Eckart and Young: what is left is what the other singular values hold
    left = np.linalg.norm(x.T @ x - factor @ factor.T)
    assert left == pytest.approx(np.linalg.norm(values[rank:]), abs=1e-9)


@given(inputs(2), st.integers(1, 7))
def test_batches_give_what_all_rows_give(xs, size):
    whole = similarity(xs)
    parts = [Covariance(WIDTH) for _ in xs]
    for one, x in zip(parts, xs, strict=True):
        for first in range(0, len(x), size):
            one.add(x[first : first + size])
    found = covariance_similarity(whole.tasks, parts)
    np.testing.assert_allclose(found.matrix, whole.matrix, atol=1e-10)
    assert (found.ranks, found.counts) == (whole.ranks, whole.counts)


def test_with_itself_it_is_not_one():
    x = np.diag([3.0, 2.0, 0, 0, 0, 0])
    found = similarity([x])
    assert found.matrix[0, 0] == pytest.approx(np.sqrt(9**2 + 4**2) / (9 + 4))
    assert np.isnan(found.averages[0])  # there are no others
    assert similarity([x[:1]]).matrix[0, 0] == pytest.approx(1)  # one row: rank one


def test_orthogonal_inputs_have_similarity_zero():
    eye = np.eye(WIDTH)
    assert similarity([eye[:2], eye[3:]]).matrix[0, 1] == 0


def test_zero_inputs_are_similar_to_none():
    generator = np.random.default_rng(0)
    xs = [generator.normal(size=(4, WIDTH)), np.zeros((4, WIDTH)), generator.normal(size=(9, WIDTH))]
    found = similarity(xs)
    assert found.zero == ["t1"]
    assert found.ranks[1] == 0
    assert np.isnan(found.matrix[1]).all()
    assert np.isnan(found.averages[1])
    assert found.averages[0] == found.matrix[0, 2]  # the mean over those that it is defined for


def test_averages():
    matrix = np.array([[0.5, 0.2, np.nan], [0.2, 0.9, np.nan], [np.nan] * 3])
    np.testing.assert_array_equal(averages_over_others(matrix), [0.2, 0.2, np.nan])


def test_what_is_not_finite_is_told():
    with pytest.raises(WeftError, match="task 't1': the inputs of the first block are not finite"):
        similarity([np.ones((2, WIDTH)), np.full((2, WIDTH), np.nan)])


def test_pooling():
    states = torch.arange(24.0).reshape(2, 3, 4)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    rows, owner = pooled_rows(states, mask, "mean")
    np.testing.assert_allclose(rows, [states[0, :2].mean(0).tolist(), states[1].mean(0).tolist()])
    assert owner.tolist() == [0, 1]
    rows, owner = pooled_rows(states, mask, "cls")
    np.testing.assert_array_equal(rows, states[:, 0])
    rows, owner = pooled_rows(states, mask, "tokens")
    np.testing.assert_array_equal(rows, torch.cat([states[0, :2], states[1]]))
    assert owner.tolist() == [0, 0, 1, 1, 1]


TASKS = (
    weft.Task("cat", labels=("no", "yes"), files={"validation": rows_of("cat", 70, 2)}),
    weft.Task("same", texts=("a", "b"), labels=("x", "y", "z"), files={"validation": rows_of("same", 9, 2)}),
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("covariance") / "encoder")


def data_of(model):
    splits = {task.name: load_split(task, "validation") for task in TASKS}
    return {name: tokenize(s, model.tokenizer, 24) for name, s in splits.items()}


@pytest.mark.each_value
@pytest.mark.usefixtures("token_cache")
@pytest.mark.parametrize("method", ["lora", "separate", "bitfit"])
@pytest.mark.parametrize("pool", POOLS)
def test_a_models_rows_one_by_one(encoder, method, pool):
    """Each row alone, under its own task, gives the same X as the mixed padded batches."""
    model = scramble(weft.Model(encoder, TASKS, method, max_length=24)).train()
    data = data_of(model)
    found = model_covariances(model, data, None, pool)
    assert not model.training
    xs = []
    for number, task in enumerate(TASKS):
        parts = []
        for row in range(len(data[task.name])):
            given = collate([(data[task.name], row)], model.pad_id)
            with torch.no_grad():
                entered = model.run(**given, task=torch.tensor([number]), layers=True).layers[0][0].double()
            parts.append({"mean": entered.mean(0, True), "cls": entered[:1], "tokens": entered}[pool])
        xs.append(torch.cat(parts).numpy())
    expected = [[plain(x, y)[0] for y in xs] for x in xs]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-5)
    assert found.counts == tuple(map(len, xs))


@pytest.mark.usefixtures("token_cache")
def test_the_task_takes_part_where_it_changes_what_enters_the_first_block(encoder):
    same = [
        weft.Task(name, labels=("no", "yes"), files={"validation": rows_of("cat", 20, 2)}) for name in "ab"
    ]
    data = {task.name: load_split(task, "validation") for task in same}

    def found(method):
        model = scramble(weft.Model(encoder, same, method, max_length=24))
        tokens = {name: tokenize(s, model.tokenizer, 24) for name, s in data.items()}
        return model_covariances(model, tokens).matrix

    plain_one, own_norms = found("lora"), found("task_norm")
    assert np.ptp(plain_one) < 1e-12  # equal texts, and nothing of a task's own before the first block
    assert abs(own_norms[0, 1] - own_norms[0, 0]) > 1e-6


@pytest.mark.usefixtures("token_cache")
def test_so_many_rows_always_the_same(encoder):
    model = weft.Model(encoder, TASKS, "lora", max_length=24)
    data = data_of(model)
    one, other = (model_covariances(model, data, 12) for _ in range(2))
    assert one.counts == (12, 9)
    np.testing.assert_array_equal(one.matrix, other.matrix)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, "rows 0: expected 1 or more"),
        ({"pool": "men"}, "pool 'men' does not exist; did you mean 'mean'"),
        ({"share": 0.0}, "share 0: expected a number above 0"),
        ({"share": 99.0}, "share 99: expected"),
    ],
)
def test_wrong_settings(encoder, settings, message):
    with pytest.raises(WeftError, match=message):
        model_covariances(weft.Model(encoder, TASKS, "lora"), {}, **settings)


def test_the_picture(tmp_path):
    xs = [np.random.default_rng(n).normal(size=(5, WIDTH)) for n in range(3)]
    found = similarity([*xs, np.zeros((1, WIDTH))])
    for name in ("a.svg", "b.svg", "a.png"):
        write_picture(found, tmp_path / name, "CovSim\nof X")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "b.svg").read_text(encoding="utf-8") == text
    for value in (*found.matrix[:3, :3].flat, *found.averages[:3]):
        assert f">{value:.2f}<" in text
    assert text.count(">–<") == 8  # a row and a column of the map, and an average
    assert "average over" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    write_picture(similarity(xs[:1]), tmp_path / "one.svg", "one task")
