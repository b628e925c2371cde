"""Tables that adapters compute from their parameters: once per pass, for all sites, in float32."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.derived_methods import METHODS
from tests.support.tiny import TASKS, batch, build, scramble
from weft.adapters.derived import DerivedAdapter, DerivedTables
from weft.core.route import Route

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture
def counted(monkeypatch):
    """The adapters of each computation of tables."""
    calls: list[int] = []
    for name in METHODS:
        adapter = type(build("bert", METHODS[name]).placements[0][1])
        plain = adapter.derive_all.__func__

        def derive_all(cls, adapters, pick, plain=plain):
            calls.append(len(adapters))
            return plain(cls, adapters, pick)

        monkeypatch.setattr(adapter, "derive_all", classmethod(derive_all))
    return calls


@every_method
def test_they_are_computed_once_per_pass_for_all_sites_of_one_form(method, counted):
    model = scramble(build("bert", METHODS[method]))
    with torch.no_grad():
        model.run(**batch(model))
    # ia3: keys and values of both blocks, and the wider inner activations
    assert counted == {"ia3": [4, 2], "reft": [2]}.get(method, [4])


@every_method
def test_a_batch_of_one_task_computes_that_tasks_alone(method, monkeypatch):
    model = scramble(build("bert", METHODS[method]))
    inputs = {name: value[:1] for name, value in batch(model).items()}
    seen = []
    plain = DerivedTables.prepare

    def prepare(self, route):
        plain(self, route)
        seen.extend(len(table) for tables in route.tables.values() for table in tables)

    monkeypatch.setattr(DerivedTables, "prepare", prepare)
    with torch.no_grad():
        model.run(**inputs)
    assert set(seen) == {1}


@every_method
def test_they_are_in_float32_under_autocast(method):
    """Orthonormal rows, cosines near 1 and products of generated weights would lose their digits."""
    model = scramble(build("bert", METHODS[method]))
    plain, half = (Route(torch.arange(4) % 4) for _ in range(2))
    tables = DerivedTables(model.adapters.modules())
    tables.prepare(plain)
    with torch.autocast("cpu", torch.bfloat16):
        tables.prepare(half)
    assert plain.tables.keys() == half.tables.keys()
    for number, expected in plain.tables.items():
        for one, other in zip(half.tables[number], expected, strict=True):
            assert one.dtype == torch.float32
            assert torch.equal(one, other)


@every_method
def test_together_they_are_as_for_each_site_alone(method):
    model = scramble(build("bert", METHODS[method]))
    route = Route(torch.arange(4) % 4)
    DerivedTables(model.adapters.modules()).prepare(route)
    adapters = [a for _, a in model.placements]
    assert all(isinstance(adapter, DerivedAdapter) for adapter in adapters)
    for adapter in adapters:
        for task in range(len(TASKS)):
            for table, own in zip(route.tables[adapter.number], adapter.task_tables(task), strict=True):
                torch.testing.assert_close(table[task], own, rtol=1e-5, atol=1e-6)


@every_method
@pytest.mark.parametrize("kernels", ["reference", "auto"])
def test_outputs_stay_the_same_to_the_last_bit_when_tasks_are_added(method, kernels):
    few, many = (tuple(weft.Task(f"t{i}", size=2) for i in range(n)) for n in (3, 7))
    small, large = (scramble(build("bert", METHODS[method], t, kernels=kernels)) for t in (few, many))
    with torch.no_grad():
        for name, parameter in small.named_parameters():
            same = large.get_parameter(name)
            (same if same.shape == parameter.shape else same[: len(parameter)]).copy_(parameter)
        inputs = batch(small)
        assert torch.equal(small.run(**inputs).hidden, large.run(**inputs).hidden)


@every_method
def test_both_settings_of_kernels_agree(method):
    model, other = (scramble(build("bert", METHODS[method], kernels=k)) for k in ("auto", "reference"))
    inputs = batch(model)
    with torch.no_grad():
        torch.testing.assert_close(model.run(**inputs).hidden, other.run(**inputs).hidden, **CLOSE)
        one = {name: value[:1] for name, value in inputs.items()}
        torch.testing.assert_close(model.run(**one).hidden, other.run(**one).hidden, **CLOSE)
