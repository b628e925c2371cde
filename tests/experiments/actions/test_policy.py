"""A variant that learns its task sampling from the log of another one."""

from __future__ import annotations

import pytest

from tests.support.tiny_grid import run_here, write_grid

pytestmark = pytest.mark.usefixtures("warm_workers")

TEXT = """
seeds: 2
variants:
  random: {train.sampler: uniform}
  counterfactual: {policy_from: random}
"""


def test_the_policy_is_learned_from_the_run_with_the_same_seed(tmp_path):
    grid = write_grid(tmp_path, TEXT, steps=8, evaluate_every=2)
    compared = run_here(grid, tmp_path / "out")
    assert not compared.failed
    assert (compared.ran, compared.steps) == (4, 32)
    samplers = [record.settings["train"]["sampler"] for record in compared.records["counterfactual"].values()]
    assert [sampler["use"] for sampler in samplers] == ["counterfactual"] * 2
    assert all(sum(sampler["policy"].values()) == pytest.approx(1) for sampler in samplers)
    assert not list((tmp_path / "out" / "runs").iterdir())  # the logs were needed for the policies alone
    again = run_here(grid, tmp_path / "out")
    assert again.ran == 0


def test_a_log_that_does_not_fit_is_the_reason_of_a_failed_run(tmp_path):
    text = "variants: {turns: {train.sampler: round_robin}, learned: {policy_from: turns}}\n"
    compared = run_here(write_grid(tmp_path, text, steps=8, evaluate_every=2), tmp_path / "out")
    assert list(compared.records) == ["turns"]
    assert "round_robin" in compared.failed["learned · seed 1"]
