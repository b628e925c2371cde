"""The cells of a grid: variants, seeds, exclusions, and cells that use other cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.experiments.cells import cells_of, in_order, trials_of, variants_of
from weft.experiments.grid import read_grid

BASE = "run: {encoder: minilm, method: {use: lora, rank: 8}, tasks: {suite: swatch}, train: {steps: 5}}\n"


def grid(text="", *overrides):
    return read_grid(BASE + text, "grid.yaml", Path(), overrides)


def test_one_cell_per_variant_and_seed():
    cells = cells_of(grid("seeds: [4, 7]\nvariants: {a: {}, b: {train.lr: 1.0e-3}}\n"))
    assert [cell.name for cell in cells] == ["a · seed 4", "a · seed 7", "b · seed 4", "b · seed 7"]
    assert [cell.raw["train"].get("lr") for cell in cells] == [None, None, 1e-3, 1e-3]
    assert [cell.raw["train"]["seed"] for cell in cells] == [4, 7, 4, 7]


def test_settings_are_set_as_on_the_command_line():
    cells = cells_of(grid("axes: {method.rank: [2, 4], method.use: [lora]}\n"))
    assert [cell.raw["method"]["rank"] for cell in cells] == [2, 4]
    changed = cells_of(grid("variants: {a: {method: full}, b: {method.use: bitfit}}\n"))
    assert [cell.raw["method"] for cell in changed] == ["full", {"use": "bitfit"}]


def test_cells_share_nothing():
    first, second = cells_of(grid("seeds: 2\n"))
    first.raw["train"]["steps"] = 99
    assert second.raw["train"]["steps"] == 5


def test_the_command_line_is_the_strongest():
    (cell,) = cells_of(grid("variants: {a: {train.steps: 7}}\n", "train.steps=2"))
    assert cell.raw["train"]["steps"] == 2


def test_exclusions():
    text = "seeds: 2\naxes: {method: [full, lora]}\nvariants: {a: {}, b: {}}\n"
    cells = cells_of(grid(text + "exclude: [{variant: a, method: lora}, {variant: b, seed: 2}]\n"))
    assert [cell.name for cell in cells] == [
        "a, full · seed 1",
        "a, full · seed 2",
        "b, full · seed 1",
        "b, lora · seed 1",
    ]


def test_everything_excluded():
    with pytest.raises(WeftError, match="nothing is left to run"):
        variants_of(grid("variants: {a: {}}\nexclude: [{variant: a}]\n"))


@pytest.mark.parametrize("key", ["baseline: lorra", "contrasts: [[lora, lorra]]"])
def test_names_that_do_not_exist(key):
    with pytest.raises(WeftError, match="there is no variant 'lorra'; did you mean 'lora'"):
        variants_of(grid(f"axes: {{method: [full, lora]}}\n{key}\n"))


def test_two_variants_of_one_name():
    with pytest.raises(WeftError, match="two variants are called"):
        variants_of(
            grid('axes: {method: {"a, b": full, a: lora}, train.sampler: {c: uniform, "b, c": uniform}}\n')
        )


def test_cells_that_use_others():
    cells = {
        c.name: c for c in cells_of(grid("variants: {a: {}, b: {start_from: a}, c: {assemble: [a, b]}}\n"))
    }
    assert cells["b · seed 1"].needs == ("a · seed 1",)
    assert cells["b · seed 1"].action == {"start_from": "a"}
    assert cells["c · seed 1"].needs == ("a · seed 1", "b · seed 1")
    assert "start_from" not in cells["b · seed 1"].raw


def test_a_needed_variant_has_the_labels_of_its_user():
    text = "axes: {method: [full, lora]}\nvariants: {a: {}, b: {grow: {from: a}}}\n"
    cells = {c.name: c for c in cells_of(grid(text))}
    assert cells["b, lora · seed 1"].needs == ("a, lora · seed 1",)


def test_a_needed_variant_that_does_not_exist():
    with pytest.raises(WeftError, match="uses the run of 'aa', which does not exist; did you mean 'a'"):
        cells_of(grid("variants: {a: {}, b: {start_from: aa}}\n"))


def test_a_peer_by_its_name_alone_uses_no_run():
    (cell,) = cells_of(grid("variants: {a: {peer: sklearn}}\n"))
    assert (cell.action, cell.needs) == ({"peer": "sklearn"}, ())


def test_a_needed_cell_that_is_excluded():
    text = "seeds: 2\nvariants: {a: {}, b: {start_from: a}}\nexclude: [{variant: a, seed: 2}]\n"
    with pytest.raises(WeftError, match="'b · seed 2' uses the run 'a · seed 2', which exclude leaves out"):
        in_order(cells_of(grid(text)))


def test_cells_that_need_each_other():
    with pytest.raises(WeftError, match="these runs need each other: a · seed 1 → b · seed 1 → a · seed 1"):
        in_order(cells_of(grid("variants: {a: {start_from: b}, b: {start_from: a}}\n")))


@given(st.permutations(range(6)))
def test_the_order_respects_needs(order):
    names = ["v0", "v1", "v2", "v3", "v4", "v5"]
    entries = {names[0]: "{}", **{names[i]: f"{{start_from: {names[i - 1]}}}" for i in range(1, 6)}}
    text = "variants:\n" + "".join(f"  {names[i]}: {entries[names[i]]}\n" for i in order)
    done = []
    for cell in in_order(cells_of(grid(text))):
        assert all(need in done for need in cell.needs)
        done.append(cell.name)
    assert len(done) == 6


def test_trials_come_first_and_the_chosen_values_are_used():
    read = grid("seeds: 3\nvariants: {a: {}, b: {}}\ntune: {over: {train.lr: [1.0e-4, 1.0e-3]}, seeds: 2}\n")
    assert trials_of(read) == [{"train.lr": "0.0001"}, {"train.lr": "0.001"}]
    assert len(cells_of(read)) == 2 * 2 * 2
    cells = cells_of(read, {"a": {"train.lr": "0.001"}})
    final = [cell for cell in cells if not cell.trial]
    assert [cell.name for cell in final] == ["a · seed 1", "a · seed 2", "a · seed 3"]
    assert {cell.raw["train"]["lr"] for cell in final} == {1e-3}


def test_a_variant_is_stronger_than_the_scale_and_the_command_line_than_both():
    text = "scales: {small: {train.lr: 1.0e-4, train.steps: 7}}\nscale: small\n"
    text += "variants: {low: {train.lr: 1.0e-5}, plain: {}}\n"
    rates = {cell.variant: cell.raw["train"]["lr"] for cell in cells_of(grid(text))}
    assert rates == {"low": 1e-5, "plain": 1e-4}
    assert {cell.raw["train"]["steps"] for cell in cells_of(grid(text))} == {7}
    assert {cell.raw["train"]["lr"] for cell in cells_of(grid(text, "train.lr=1.0e-3"))} == {1e-3}
